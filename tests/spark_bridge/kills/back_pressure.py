"""Stops Spark while numbers arrive: the engine waits at `max_pending_batches`, uses no more memory, and catches up later (SP-6)."""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spark_bridge import Handover
from tests.servers.keeper import signal_family
from tests.spark_bridge.kills.engine_life import Life
from tests.spark_bridge.kills.flow import MAX_PENDING_BATCHES
from tests.spark_bridge.kills.places import Places
from tests.spark_bridge.kills.processes import CHILD, NotInTime, until
from tests.spark_bridge.kills.rounds import AHEAD, MOST_SECS, KilledFlow

FLOOD: Final = 40_000
"""Numbers that arrive while Spark is stopped: about a hundred times more than the engine may hand over."""
MOST_GROWTH_BYTES: Final = 8 * 2**20
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Frozen:
    """Measurements."""

    secs: float
    planned: int = 0
    """Lowest planned txid of a consumer."""
    newest: list[int] = field(default_factory=list)
    """Newest txid when the engine began to wait, in the middle, and at the end."""
    rss_bytes: list[int] = field(default_factory=list)
    """Memory of the engine at these times."""
    cpu_secs: float = 0.0
    """CPU time of the engine in between."""
    numbers: int = 0
    violations: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return all measurements in one line."""
        rss = ", ".join(f"{each / 2**20:.1f}" for each in self.rss_bytes)
        return (
            f"Spark stood still for {self.secs:g} s at txid {self.planned}: the engine went on to {self.newest} "
            f"(max_pending_batches={MAX_PENDING_BATCHES}), its memory was {rss} MiB, its CPU {self.cpu_secs:.2f} s; "
            f"then {self.numbers:,} numbers were caught up; {len(self.violations)} violations"
        )


async def play_frozen(places: Places, secs: float) -> Frozen:
    """Run an engine and a pipeline, stop Spark for `secs`, and let all finish."""
    flow, frozen = KilledFlow(places), Frozen(secs)
    flow.prepare()
    try:
        await flow.start_pipeline()
        await freeze(flow, frozen)
        await flow.finish()
    except NotInTime as fault:
        flow.killed.violations.append(str(fault))
    finally:
        await flow.end()
    frozen.numbers = flow.killed.numbers
    frozen.violations = [*_faults(frozen), *flow.killed.violations]
    return frozen


async def freeze(flow: KilledFlow, frozen: Frozen) -> list[str]:
    """Run a new engine, stop the processes of Spark with SIGSTOP while many numbers arrive, and measure. Return the faults."""
    flow.write(AHEAD)
    flow.engine = await flow.start_engine(Life(places=flow.places))
    for query in flow.places.queries:
        await flow.progress(query)
    child = flow.member(CHILD)
    assert child is not None
    signal_family(child, signal.SIGSTOP)
    try:
        flow.write(FLOOD)
        await _stand_still(flow, frozen)
    finally:
        signal_family(child, signal.SIGCONT)
    await flow.engine.kill()
    return _faults(frozen)


async def _stand_still(flow: KilledFlow, frozen: Frozen) -> None:
    """Measure from the time when the engine waits."""
    assert flow.engine is not None
    pid = flow.engine.process.pid
    handover = Handover.open(flow.places.path("handover"))
    frozen.planned = min(position.planned for position in handover.consumers().values())
    await until(lambda: flow.newest() >= frozen.planned + MAX_PENDING_BATCHES, MOST_SECS, "as many batches as may be pending")
    began_cpu = cpu_secs(pid)
    for pause in (0.0, frozen.secs / 2, frozen.secs / 2):
        await asyncio.sleep(pause)
        frozen.newest.append(flow.newest())
        frozen.rss_bytes.append(rss_bytes(pid))
    frozen.cpu_secs = cpu_secs(pid) - began_cpu


def _faults(frozen: Frozen) -> list[str]:
    most = frozen.planned + MAX_PENDING_BATCHES
    faults = [f"the engine went on to {newest}, and {most} is the most" for newest in frozen.newest if newest != most]
    *_, middle, end = frozen.rss_bytes or (0, 0)
    if end - middle > MOST_GROWTH_BYTES:
        faults.append(f"the engine's memory grew from {middle:,} to {end:,} bytes while it waited")
    return faults


def rss_bytes(pid: int) -> int:
    """Return the memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def cpu_secs(pid: int) -> float:
    """Return the CPU time of a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS
