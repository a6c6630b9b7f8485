"""A process of a flow with windows: `python -m tests.streams.killed.killing TOLD` starts it.

Files → event time → windows → a map of values, which has the numbers of the rows of each window, or their sum.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine import Config, FileSpout, Topology
from engine.streams import Flow, Put, Windowed, session, tumbling
from engine.transactional.values import SqliteValues
from tests.checkpoint.exact.steps import STEPS
from tests.kills import lives

TOPOLOGY: Final = "windows"
FILES: Final = 4
BOUND_MS: Final = 3000
SPECS: Final = {"tumbling": tumbling(timedelta(seconds=5)), "session": session(gap=timedelta(seconds=2))}
START_MS: Final = 1_700_000_000_000


class Row(NamedTuple):
    number: int
    key: str
    at: int


@dataclass(frozen=True, kw_only=True)
class Places:
    """Files, size and store of one flow, shared by all its processes."""

    folder: str
    rows: int
    windows: str
    state: str
    """URL of the store."""

    def values(self, name: str) -> SqliteValues:
        """Return the map of a sink."""
        return SqliteValues(f"{self.folder}/{name}.db", name)


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """The end of a process, with its settings."""

    tasks: int = 2
    """Tasks of the windows."""
    file_tasks: int = 1
    output_tasks: int = 1
    interval_ms: float = 20.0
    pace_secs: float = 0.001
    """Time for a row, so that a process meets many checkpoints before its files are read."""


def row_at(number: int) -> Row:
    """Return one row. Its time is up to the bound behind those before it, and keys are silent now and then."""
    back_ms = number * 7919 % BOUND_MS if number % 3 == 0 else 0
    return Row(number, f"k{number // 40 % 3 + number % 2}", START_MS + number * 100 - back_ms)


def write_files(places: Places) -> None:
    """Write the input. Each file has every fourth row."""
    for file in range(FILES):
        text = "".join(json.dumps(row_at(number)._asdict()) + "\n" for number in range(file, places.rows, FILES))
        Path(places.folder, f"input-{file}.jsonl").write_text(text)


def key_of(result: Windowed[str, Any]) -> str:
    """Return the key of a result in the map."""
    return f"{result.key} {result.start_us} {result.end_us}"


def value_of(result: Windowed[str, Any]) -> Any:
    """Return the numbers of the rows of a result, or their sum."""
    return json.dumps(sorted(row.number for row in result.value)) if isinstance(result.value, list) else result.value


def topology_of(places: Places, death: Death) -> Topology:
    """Return the topology of one process."""

    def paced(row: Row) -> Row:
        time.sleep(death.pace_secs)
        return row

    flow = Flow(TOPOLOGY)
    spout = lambda: FileSpout(f"{places.folder}/input-*", "jsonl", fields=list(Row._fields))  # noqa: E731
    rows = flow.stream("rows", spout, Row, parallelism=death.file_tasks, max_spout_pending=100)
    timed = rows.event_time("at", max_out_of_order=timedelta(milliseconds=BOUND_MS)).map(paced, name="paced", parallelism=2)
    in_windows: Any = timed.key_by("key").window(SPECS[places.windows])
    if places.windows == "session":  # all sessions of a key are one value, and all are open until the last file is read
        windows = in_windows.sum(lambda row: row.number, name="first", parallelism=death.tasks)
    else:
        windows = in_windows.collect(name="first", parallelism=death.tasks)
    windows.sink("out", Put(places.values("out"), key=key_of, value=value_of), parallelism=death.output_tasks)
    windows.late.sink("late", Put(places.values("late"), key=lambda late: late.row.number, value=lambda late: late.late_by_us))
    return flow.topology()


async def main() -> None:
    """Run to the end, or to the death."""
    places, death, _ = lives.heard(Places, Death)
    config = Config(
        state_provider=places.state,
        state_checkpoint_interval_ms=death.interval_ms,
        processing_guarantee="exactly_once",
        max_task_restarts=1000,
    )
    await lives.live(topology_of(places, death), config, death, STEPS)


if __name__ == "__main__":
    asyncio.run(main())
