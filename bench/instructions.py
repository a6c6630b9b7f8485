"""Instructions of a tuple on the hot paths, counted by valgrind. A count does not depend on the machine's load, as a time does.

    python -m bench.instructions                        all works
    python -m bench.instructions bursts state           some
    python -m bench.instructions --before FOLDER        beside another checkout, which is built

Each number is the difference of two runs, so the start of the process does not count. It needs valgrind on the path.
"""

import argparse
import asyncio
import gc
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import engine
from bench.macro.burst_components import ConstBurstSpout, NullMany
from bench.macro.components import FiniteSpout, Identity, Null
from engine import Burst, BurstBolt, Config, SpoutExhausted, StatefulBasicBolt, StatefulBurstBolt, Topology, TopologyBuilder, Tuple

ROOT: Final = Path(__file__).parent.parent
FEW, MANY = 20_000, 60_000
"""Tuples of the two runs."""
KEYS: Final = 1000


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: the time jumps to it. Time stands still while anything is ready."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0.0:
            return super().select(timeout)
        self.now += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose timers take no time. It does next to nothing per turn, so the engines are compared, and not their test kits.

    A call in a thread has no defined time here. The works make none that counts.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class FiniteBurstSpout(ConstBurstSpout):
    """Emits the same values a given number of times."""

    def __init__(self, values: tuple[object, ...], tuples: int) -> None:
        super().__init__(values)
        self.tuples = tuples

    def next_tuples(self, limit: int) -> None:
        if self.emitted >= self.tuples:
            raise SpoutExhausted
        super().next_tuples(limit)


class ExactSpout(FiniteSpout):
    """The same, with positions."""

    def seek(self, position: int | None) -> None:
        self.emitted = position or 0

    def position(self) -> int:
        return self.emitted


class ExactBurstSpout(FiniteBurstSpout):
    """The same, in bursts."""

    seek = ExactSpout.seek
    position = ExactSpout.position


class CountKeys(StatefulBasicBolt):
    """Counts each of a thousand keys."""

    def prepare(self) -> None:
        self.number = 0

    def execute(self, tup: Tuple) -> None:
        self.number = (self.number + 1) % KEYS
        key = f"key {self.number}"
        self.state.put(key, self.state.get(key, 0) + 1)


class CountKeysMany(StatefulBurstBolt):
    """Does the same in bursts."""

    def prepare(self) -> None:
        self.number = 0

    def execute_many(self, burst: Burst) -> None:
        first, self.number = self.number, (self.number + len(burst)) % KEYS
        self.state.add_many([f"key {number % KEYS}" for number in range(first, first + len(burst))])


def _exact(spout: Callable[..., Any], bolt: Callable[[], Any], tuples: int) -> Topology:
    builder = TopologyBuilder("exact")
    builder.set_spout("spout", lambda: spout(("hello",), tuples), max_spout_pending=1000)
    builder.set_bolt("count", bolt).shuffle_grouping("spout")
    return builder.build()


def _committed(tuples: int) -> Topology:
    from engine.transactional.values import MemoryValues, ReduceInto

    builder = TopologyBuilder("committed")
    builder.set_spout("spout", lambda: ExactBurstSpout(("hello",), tuples), max_spout_pending=1000)
    builder.set_committer("totals", ReduceInto(MemoryValues("totals"), key="value")).fields_grouping("spout", "value")
    return builder.build()


def _row(name: str, values: tuple[object, ...], bolts: Sequence[Callable[[], Any]], tuples: int) -> Topology:
    builder = TopologyBuilder(name)
    spout = FiniteBurstSpout if bolts[-1] is NullMany else FiniteSpout
    before = "spout"
    builder.set_spout(before, lambda: spout(values, tuples), max_spout_pending=1000)
    for number, bolt in enumerate(bolts):
        builder.set_bolt(f"bolt{number}", bolt).shuffle_grouping(before)
        before = f"bolt{number}"
    return builder.build()


def _batches(tuples: int) -> Topology:
    from bench.kafka.job import Tally
    from bench.transactions.batches import GlobalCount, PartialCount
    from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder

    tally = Tally(tuples)
    builder = TransactionalTopologyBuilder("batches", "words", MemoryTransactionalSpout([("word",)] * tuples, "word", 1000))
    builder.set_bolt("partial", PartialCount).shuffle_grouping("words")
    builder.set_committer("total", lambda: GlobalCount(tally)).global_grouping("partial")
    return builder.build()


class StepsMany(BurstBolt):
    """What `_flow_steps` does with map, filter and map."""

    output_fields = "value"

    def execute_many(self, burst: Burst) -> None:
        for tup, value in burst.items("value"):
            upper = value.upper()
            if len(upper) > 2:
                self.collector.emit((upper.title(),), tup)


class SplitMany(BurstBolt):
    """What `_flow_words` does with flat_map."""

    output_fields = "word"

    def execute_many(self, burst: Burst) -> None:
        for tup, line in burst.items("value"):
            self.collector.emit_each(line.split(), anchors=tup)


class CountWordsMany(StatefulBurstBolt):
    """What `_flow_words` does with key_by and count."""

    output_fields = ("word", "count")

    def execute_many(self, burst: Burst) -> None:
        words = burst["word"]
        known = list(dict.fromkeys(words))
        counts = dict(zip(known, self.state.get_many(known, 0), strict=True))
        for tup, word in burst.items("word"):
            counts[word] += 1
            self.collector.emit((word, counts[word]), tup)
        self.state.put_many(counts)


LINE: Final = "to be or not to be"


def _hand_steps(tuples: int) -> Topology:
    return _row("steps-hand", ("hello",), [StepsMany, NullMany], tuples)


def _flow_steps(tuples: int) -> Topology:
    from engine.streams import Flow

    flow = Flow("steps-flow")
    source = flow.stream("spout", lambda: FiniteBurstSpout(("hello",), tuples), str, max_spout_pending=1000)
    source.map(str.upper).filter(lambda text: len(text) > 2).map(str.title).sink("null", NullMany)
    return flow.topology()


def _hand_words(tuples: int) -> Topology:
    builder = TopologyBuilder("words-hand")
    builder.set_spout("spout", lambda: FiniteBurstSpout((LINE,), tuples), max_spout_pending=1000)
    builder.set_bolt("split", SplitMany).shuffle_grouping("spout")
    builder.set_bolt("count", CountWordsMany).fields_grouping("split", "word")
    builder.set_bolt("null", NullMany).shuffle_grouping("count")
    return builder.build()


def _flow_words(tuples: int) -> Topology:
    from engine.streams import Flow

    flow = Flow("words-flow")
    source = flow.stream("spout", lambda: FiniteBurstSpout((LINE,), tuples), str, max_spout_pending=1000)
    source.flat_map(str.split).key_by(lambda word: word).count(name="count").sink("null", NullMany)
    return flow.topology()


def _windows(kind: str, tuples: int) -> Topology:
    from bench.streams.flows import Results, windows
    from bench.streams.hits import hits

    return windows(kind, hits(tuples, KEYS, 100), Results, pending=1000)  # a key comes six times in a window


WORKS: Final[Mapping[str, Callable[[int], Topology]]] = {
    "tuples": lambda tuples: _row("tuples", ("hello",), [Null], tuples),
    "anchored": lambda tuples: _row("anchored", ("hello",), [Identity, Null], tuples),
    "nested": lambda tuples: _row("nested", ({"word": "hello"},), [Null], tuples),
    "bursts": lambda tuples: _row("bursts", ("hello",), [NullMany], tuples),
    "state": lambda tuples: _row("state", ("hello",), [CountKeys], tuples),
    "exact": lambda tuples: _exact(ExactSpout, CountKeys, tuples),
    "exact-bursts": lambda tuples: _exact(ExactBurstSpout, CountKeysMany, tuples),
    "committed": _committed,
    "batches": _batches,
    "steps-hand": _hand_steps,
    "steps-flow": _flow_steps,
    "words-hand": _hand_words,
    "words-flow": _flow_words,
    "windows": lambda tuples: _windows("field", tuples),
    "windows-lambda": lambda tuples: _windows("lambda", tuples),
    "windows-sum": lambda tuples: _windows("sum", tuples),
    "windows-sliding": lambda tuples: _windows("sliding", tuples),
    "sessions": lambda tuples: _windows("sessions", tuples),
}
"""The topology of each work, with a number of tuples. The values of `nested` are not atoms, so the garbage collector tracks its tuples."""


def run_work(name: str, tuples: int) -> None:
    """Run a topology with jumping time, without garbage collection, so that two runs take the same steps."""

    async def main() -> None:
        async with engine.run(WORKS[name](tuples), Config(seed=1)) as run:
            await run.completed()

    gc.disable()
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())


def counted(name: str, tuples: int, checkout: Path) -> int:
    """Return the instructions of a process that runs a work with the engine of a checkout."""
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(checkout)!r}); import engine, _native; "
        f"runpy.run_path({__file__!r})['run_work']({name!r}, {tuples})"
    )
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"{name}: the run failed\n{done.stderr}")
    return int(found[1].replace(",", ""))


def per_tuple(name: str, checkout: Path) -> float:
    """Return the instructions of one tuple."""
    return (counted(name, MANY, checkout) - counted(name, FEW, checkout)) / (MANY - FEW)


def main() -> None:
    """Count, and print a line for each work."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description="Instructions of a tuple, counted by valgrind.")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"one of {', '.join(WORKS)} (default: all)")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="also count with the engine of this checkout, and compare")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.works if name not in WORKS]:
        parser.error(f"no such work: {', '.join(unknown)} (there are: {', '.join(WORKS)})")
    for name in arguments.works or WORKS:
        after = per_tuple(name, ROOT)
        text = f"{name:10} {after:8,.0f} instructions a tuple"
        if arguments.before is not None:
            before = per_tuple(name, arguments.before.resolve())
            text += f", before {before:8,.0f} ({(after - before) / before:+.1%})"
        print(text, flush=True)


if __name__ == "__main__":
    main()
