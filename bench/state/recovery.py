"""`python -m bench.state.recovery --keys 1000000`: from the start of a run to its first tuple, on a SQLite state of so many keys, as JSON.

The process that made the state was killed. *Folded*: all keys are in rows, and the last checkpoint's 100,000 in a delta, as a long run
leaves it. *Unfolded*: all keys came in one checkpoint, and the kill behind it, before the fold: the worst there is. *Read* is every key
read once by `items()`, after that. Each start is a process of its own; its clock begins before the run is made, behind the imports.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import engine
from bench.child import module_child, run_child
from bench.loops import new_event_loop
from engine import Config, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple

CHANGED_LAST = 100_000


class Keys(Spout):
    """Emits one tuple for all keys. Its ack comes behind a checkpoint; where `dies`, the process is killed there and then."""

    output_fields = engine.Fields("keys")

    def __init__(self, keys: int, *, dies: bool) -> None:
        self.keys = [keys]
        self.dies = dies

    def next_tuple(self) -> None:
        if not self.keys:
            raise SpoutExhausted
        self.collector.emit((self.keys.pop(),), "all")

    def ack(self, message_id: object) -> None:
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)


class Keep(StatefulBasicBolt):
    """Puts so many keys; notes when the tuple came."""

    def __init__(self) -> None:
        self.first_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def execute(self, tup: Tuple) -> None:
        if not self.first_at.done():
            self.first_at.set_result(time.perf_counter())
        for number in range(tup["keys"]):
            self.state.put(f"key {number:012}", number)


def run(keys: int, folder: Path, *, dies: bool = False) -> tuple[engine.Run, Keep]:
    """A run whose one task keeps so many keys; one checkpoint is made, when its spout has nothing more."""
    keep = Keep()
    builder = TopologyBuilder("recovery")
    builder.set_spout("keys", lambda: Keys(keys, dies=dies))
    builder.set_bolt("keep", lambda: keep).shuffle_grouping("keys")
    return engine.run(builder.build(), Config(state_provider=f"sqlite:///{folder}/state.db")), keep


async def fill(keys: int, folder: Path, *, dies: bool) -> None:
    """Commit so many keys in one checkpoint; then die, or end in order, which folds them."""
    filling, _ = run(keys, folder, dies=dies)
    async with filling:
        await filling.completed()


async def start(keys: int, folder: Path) -> dict[str, float]:
    """Start on what is there; the seconds to the first tuple, and to read all."""
    began = time.perf_counter()
    starting, keep = run(1, folder)
    async with starting:
        first_at = await keep.first_at
        before = time.perf_counter()
        found = sum(1 for _ in keep.state.items())
        read_secs = time.perf_counter() - before
        await starting.stop()
    if found != keys:
        raise SystemExit(f"{found:,} of {keys:,} keys were found")
    return {"secs": first_at - began, "read_secs": read_secs}


def measure(keys: int) -> dict[str, float]:
    """Both cases, each step in a process of its own."""
    reading = {}
    for name, steps in {"folded": (("fill", keys), ("die", CHANGED_LAST)), "unfolded": (("die", keys),)}.items():
        with TemporaryDirectory(prefix="stormcell-bench-") as folder:
            for step, changed in steps:
                _do(step, changed, folder)
            reading[name] = run_child(module_child("bench.state.recovery", "--step", "start", "--folder", folder, "--keys", keys))
    return {f"{name}_{key}": value for name, each in reading.items() for key, value in each.items()}


def _do(step: str, keys: int, folder: str) -> None:
    command = [sys.executable, "-m", "bench.state.recovery", "--step", step, "--folder", folder, "--keys", str(keys)]
    status = subprocess.run(command, check=False, timeout=120).returncode
    if status != (-signal.SIGKILL if step == "die" else 0):
        raise SystemExit(f"exit status {status}: {' '.join(command)}")


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--step", choices=("fill", "die", "start"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    keys, folder = arguments.keys, arguments.folder
    if arguments.step is None:
        print(json.dumps(measure(keys)))
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if arguments.step == "start":
            print(json.dumps(runner.run(start(keys, folder))))
        else:
            runner.run(fill(keys, folder, dies=arguments.step == "die"))


if __name__ == "__main__":
    main()
