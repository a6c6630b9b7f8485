"""Time from the start of a process to the first row of its windows, after a kill -9 with many open sessions. The state is in SQLite.

A source opens a session for each key, and is killed when all are committed. The clock of the second process begins after the imports,
before the flow is built. Its first row is a late one: it is handed out as soon as the windows have seen it.
"""

import asyncio
import os
import signal
import time
from tempfile import TemporaryDirectory
from typing import Any

import engine
from bench.process import RunFailed, call_in_process
from bench.streams.hits import START_MS, Hit
from engine import BurstSpout, Config, Fields
from engine.streams import Flow, hours, session

GAP = hours(1)
LATE_MS = START_MS - 2 * 3_600_000
"""Time of a row that is late behind rows from START_MS on."""


class Visitors(BurstSpout):
    """Emits a row for each key, then late rows. Its position is the number of rows."""

    output_fields = Fields(*Hit._fields)

    def __init__(self, keys: int, dies: bool) -> None:
        self.keys, self.dies, self.next = keys, dies, 0

    def next_tuples(self, limit: int) -> None:
        if self.next < self.keys:
            count = min(limit, self.keys - self.next)
            self.collector.emit_many([Hit(f"key {number}", START_MS + number) for number in range(self.next, self.next + count)])
        elif self.dies:
            return
        else:
            count = 1
            self.collector.emit_many([Hit("key 0", LATE_MS)])
        self.next += count

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def committed(self, position: object) -> None:
        if self.dies and position == self.keys:
            os.kill(os.getpid(), signal.SIGKILL)


def measure(keys: int) -> dict[str, float]:
    """Return the seconds, each process new."""
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        arguments: dict[str, Any] = {"keys": keys, "folder": folder}
        try:
            call_in_process("bench.streams.recovery:run_once", {**arguments, "dies": True})
        except RunFailed as error:
            if f"exit status {-signal.SIGKILL}" not in str(error):
                raise
        return dict(call_in_process("bench.streams.recovery:run_once", {**arguments, "dies": False}))


async def run_once(keys: int, folder: str, dies: bool) -> dict[str, float]:
    """Open the sessions and die, or start on them."""
    first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def note(late: object) -> None:
        if not first.done():
            first.set_result(time.perf_counter())

    began = time.perf_counter()
    flow = Flow("sessions-recovery")
    visits = flow.stream("visits", lambda: Visitors(keys, dies), Hit).event_time("at")
    visits.key_by("key").window(session(gap=GAP)).count(name="sessions").late.sink("late", note)
    config = Config(state_provider=f"sqlite:///{folder}/state.db", processing_guarantee="exactly_once")
    async with engine.run(flow.topology(), config) as run:
        start_secs = await asyncio.wait_for(first, 600) - began
        await run.stop()
    return {"start_secs": start_secs}
