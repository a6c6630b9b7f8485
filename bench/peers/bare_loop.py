"""The bare loop shows the cost of a tuple if only its tree is tracked. It is built from a copy, outside of its folder.

Acked works run the program in `shared/floor` unchanged. This program always tracks. So the un-acked work runs `unacked_loop.pyx`, which is
written in the same style.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from bench.builds import build_cython
from bench.environments import PROJECT
from bench.measuring import new_event_loop, rate_figures

FLOOR = PROJECT.parent / "shared" / "floor"
FLOOR_OF_BURSTS = PROJECT.parent / "shared" / "floor-bursts"
"""The same loop, whose user code takes up to 256 tuples at a time."""
LOOP = Path(__file__).with_name("unacked_loop.pyx")
BURST = 256


def run(work: str, tuples: int) -> dict[str, float]:
    """Run a work on the bare loop. Build it first if needed. For acked works its own program replaces this process."""
    if work == "un-acked":
        sys.path.insert(0, str(build_cython("unacked-loop", [LOOP], ["-m", "Cython.Build.Cythonize", "--inplace", LOOP.name])))
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return rate_figures(tuples, runner.run(_run_unacked(tuples)))
    single = work.removesuffix("-bursts")
    folder = FLOOR if single == work else FLOOR_OF_BURSTS
    os.chdir(build_cython(folder.name, sorted(folder.glob("*.py*")), ["setup.py", "-q", "build_ext", "--inplace"]))
    os.execv(sys.executable, [sys.executable, "run.py", single, str(tuples), str(BURST)])


async def _run_unacked(tuples: int) -> float:
    """Return the seconds that `tuples` tuples take from the spout through the bolt."""
    from unacked_loop import BoltSide, Ring, SpoutSide  # type: ignore[import-not-found]

    class Spout:
        """Emits the same value forever."""

        def __init__(self) -> None:
            self.collector, self.values, self.emitted = SpoutSide([ring]), ("hello",), 0

        def next_tuple(self) -> None:
            self.emitted += 1
            self.collector.emit(self.values)

    class Null:
        """Acks each tuple."""

        def __init__(self) -> None:
            self.collector = BoltSide()

        def execute(self, tup: object) -> None:
            self.collector.ack(tup)

    ring = Ring()
    spout, bolt, executed = Spout(), Null(), 0
    ring.bind(bolt.execute)

    async def drive_spout() -> None:
        while spout.emitted < tuples:
            spout.collector.burst(spout.next_tuple, min(BURST, tuples - spout.emitted))
            await asyncio.sleep(0)

    async def drive_bolt() -> None:
        nonlocal executed
        while executed < tuples:
            executed += ring.drain(BURST)
            await asyncio.sleep(0)

    start = time.perf_counter()
    await asyncio.gather(drive_spout(), drive_bolt())
    return time.perf_counter() - start
