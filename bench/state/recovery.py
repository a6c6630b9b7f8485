"""Time from the start of a run to its first tuple, on a SQLite state whose process was killed.

- `folded`: all keys are in rows, and the 100,000 keys of the last checkpoint are in a delta, like after a long run.
- `unfolded`: one checkpoint wrote all keys, and the process was killed before the fold. This is the worst case.
- `read`: every key is read once by `items()`, after the first tuple.

Each start runs in its own process. Its clock begins after the imports, before the run is created.
"""

import asyncio
import os
import signal
import time
from tempfile import TemporaryDirectory

import engine
from bench.process import RunFailed, call_in_process
from engine import Config, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple

CHANGED_LAST = 100_000


class Keys(Spout):
    """Emits one tuple for all keys. The tuple is acked after a checkpoint. With `dies`, the ack kills the process."""

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
    """Puts a number of keys. Notes the time of the tuple."""

    def __init__(self) -> None:
        self.first_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def execute(self, tup: Tuple) -> None:
        if not self.first_at.done():
            self.first_at.set_result(time.perf_counter())
        for number in range(tup["keys"]):
            self.state.put(f"key {number:012}", number)


def measure(keys: int) -> dict[str, float]:
    """Measure both cases, each step in its own process."""
    reading: dict[str, float] = {}
    for case, steps in {"folded": ((keys, False), (CHANGED_LAST, True)), "unfolded": ((keys, True),)}.items():
        with TemporaryDirectory(prefix="stormcell-bench-") as folder:
            for changed, dies in steps:
                _fill_in_process(changed, folder, dies=dies)
            found = call_in_process("bench.state.recovery:start", {"keys": keys, "folder": folder})
        reading |= {f"{case}_{key}": value for key, value in found.items()}
    return reading


def _fill_in_process(keys: int, folder: str, *, dies: bool) -> None:
    try:
        call_in_process("bench.state.recovery:fill", {"keys": keys, "folder": folder, "dies": dies})
    except RunFailed as error:
        if not dies or f"exit status {-signal.SIGKILL}" not in str(error):
            raise


async def fill(keys: int, folder: str, dies: bool) -> dict[str, float]:
    """Commit `keys` keys in one checkpoint. Then die, or end normally, which folds them."""
    filling, _ = _new_run(keys, folder, dies=dies)
    async with filling:
        await filling.completed()
    return {"keys": keys}


async def start(keys: int, folder: str) -> dict[str, float]:
    """Start on the stored state. Return the seconds to the first tuple, and to read all keys."""
    began = time.perf_counter()
    starting, keep = _new_run(1, folder, dies=False)
    async with starting:
        first_at = await keep.first_at
        before = time.perf_counter()
        found = sum(1 for _ in keep.state.items())
        read_secs = time.perf_counter() - before
        await starting.stop()
    if found != keys:
        raise SystemExit(f"{found:,} of {keys:,} keys were found")
    return {"secs": first_at - began, "read_secs": read_secs}


def _new_run(keys: int, folder: str, *, dies: bool) -> tuple[engine.Run, Keep]:
    """Return a run with one task that keeps the keys. One checkpoint is made when its spout is exhausted."""
    keep = Keep()
    builder = TopologyBuilder("recovery")
    builder.set_spout("keys", lambda: Keys(keys, dies=dies))
    builder.set_bolt("keep", lambda: keep).shuffle_grouping("keys")
    return engine.run(builder.build(), Config(state_provider=f"sqlite:///{folder}/state.db")), keep
