"""Adaptive flow control: log files of many sizes go through twelve tasks of different speed.

    python examples/flow_logs.py [FOLDER] [--lines N]
    python -m engine run examples/flow_logs.py

The program counts requests and bytes by status. It writes logs into FOLDER/logs if there are none. Some tasks are slow, one is ten times
slower than the others, one stands still for a while, and one dies. FOLDER keeps the counts and the position in the logs. Kill the process
with `kill -9` and start it again: it continues from that position. The default is a temporary folder.

A line may be processed twice. After a crash, lines beyond the recorded position come again. Lines of a task that died or stood still go to
another task. The row of a line therefore has file and offset as its key, and INSERT OR REPLACE keeps the sums right. `count += 1` would be
too high. The store acks only committed rows, so no position is ever ahead of the rows.
"""

import argparse
import asyncio
import atexit
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from engine import Bolt, Config, FlowControlBolt, FlowControlSpout, FlowProducer, Topology, TopologyBuilder, Tuple
from engine.cli import run_in_terminal

LINES, TASKS = 28_000, 12
SLOWER = {1: 3, 4: 3, 9: 3, 6: 10}
"""The slow tasks. The value says how many times slower a task is than the others."""
STANDS_STILL, DIES, AFTER_LINES = 8, 10, 100
"""The task that stands still once, the task that dies once, and the number of lines that each processes before."""
SERVICE_SECS, STANDSTILL_SECS, TIMEOUT_SECS = 0.002, 4.0, 2.0

Position = tuple[str, int]  # the name of a file, the offset behind a line
Sums = dict[int, tuple[int, int]]  # by status: requests, bytes


class Job:
    """The logs of one folder, and the work that this process has done."""

    def __init__(self, folder: Path, lines: int) -> None:
        self.logs, self.positions, self.requests = folder / "logs", folder / "positions.db", folder / "requests.db"
        self.lines, self.secs = [0] * TASKS, [0.0] * TASKS  # by task
        self.struck: set[int] = set()  # the tasks that have stood still or died
        self.began_behind: Position | None = None
        if not self.logs.exists():
            write_logs(self.logs, lines)

    def topology(self) -> Topology:
        builder = TopologyBuilder("flow-logs", Config(state_provider=f"sqlite:///{self.positions}", message_timeout_secs=TIMEOUT_SECS))
        builder.set_spout("lines", lambda: FlowControlSpout(LogLines(self)))
        builder.set_bolt("parse", lambda: Parse(self), parallelism=TASKS).direct_grouping("lines")
        builder.set_bolt("store", lambda: Store(self.requests), tick_tuple_freq_secs=0.1).shuffle_grouping("parse")
        return builder.build()


class LogLines(FlowProducer):
    """Reads one file after the other."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def records(self, after: Position | None) -> Iterator[tuple[Position, tuple[str, int, str]]]:
        self.job.began_behind = after
        newest, done = after or ("", 0)
        for path in sorted(self.job.logs.iterdir()):
            if path.name >= newest:
                with path.open("rb") as file:
                    offset = file.seek(done if path.name == newest else 0)
                    for line in file:
                        offset += len(line)
                        yield (path.name, offset), (path.name, offset, line.decode())


class Parse(FlowControlBolt):
    """Parses lines. Each task has its own speed."""

    on_error = "restart"  # an instance that raises is replaced; by default it would continue
    output_fields = ("file", "offset", "status", "bytes")

    def __init__(self, job: Job) -> None:
        self.job = job

    async def process(self, record: tuple[str, int, str]) -> tuple[str, int, int, int]:
        job, index, began = self.job, self.context.task_index, self.context.clock.now()
        await asyncio.sleep(SERVICE_SECS * SLOWER.get(index, 1) * self.context.random.lognormvariate(-0.125, 0.5))
        if index in (STANDS_STILL, DIES) and index not in job.struck and job.lines[index] >= AFTER_LINES:
            job.struck.add(index)
            if index == DIES:
                raise RuntimeError("this task dies once, and its lines go to others")
            await asyncio.sleep(STANDSTILL_SECS)
        job.lines[index] += 1
        job.secs[index] += self.context.clock.now() - began
        return *record[:2], *parsed(record[2])


class Store(Bolt):
    """Puts many rows into a table in one transaction, and acks them after the commit."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        self.waiting: list[Tuple] = []
        self.database = sqlite3.connect(self.path, check_same_thread=False)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("CREATE TABLE IF NOT EXISTS requests (file, offset, status, bytes, PRIMARY KEY (file, offset))")

    async def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.waiting.append(tup)
            return
        await asyncio.to_thread(self.commit)
        for each in self.waiting:
            self.collector.ack(each)
        self.waiting.clear()

    def commit(self) -> None:
        with self.database:
            self.database.executemany("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)", [each.values for each in self.waiting])

    def cleanup(self) -> None:
        self.database.close()


def parsed(line: str) -> tuple[int, int]:
    """Return status and bytes of a line such as `10.0.0.7 "GET /page/3" 200 5123`."""
    *_, status, size = line.split()
    return int(status), int(size)


def stored_sums(requests: Path) -> Sums:
    """Return requests and bytes by status from the table, as any program may read them."""
    with closing(sqlite3.connect(requests)) as database:
        rows = database.execute("SELECT status, COUNT(*), SUM(bytes) FROM requests GROUP BY status")
        return {status: (requests, total) for status, requests, total in rows}


def plain_sums(logs: Path) -> Sums:
    """Compute the same sums in plain Python."""
    sums: Sums = {}
    for status, size in (parsed(line) for path in logs.iterdir() for line in path.read_text().splitlines()):
        requests, total = sums.get(status, (0, 0))
        sums[status] = requests + 1, total + size
    return sums


def write_logs(logs: Path, lines: int) -> None:
    """Write files of very different sizes."""
    logs.mkdir(parents=True)
    draws = random.Random(4)
    shares = [draws.paretovariate(0.8) for _ in range(20)]
    for number, share in enumerate(shares):
        with (logs / f"access-{number:02}.log").open("w") as file:
            for _ in range(max(1, round(lines * share / sum(shares)))):
                status = draws.choices([200, 304, 404, 500], [80, 12, 6, 2])[0]
                file.write(f'10.0.0.{draws.randrange(256)} "GET /page/{draws.randrange(100)}" {status} {draws.randrange(200, 20_000)}\n')


def show(job: Job) -> None:
    """Print the work of each task, and the result."""
    if job.began_behind is not None:
        print(f"Continued after {job.began_behind}.")
    for index, (lines, secs) in enumerate(zip(job.lines, job.secs, strict=True)):
        print(f"task {index:>2}  {lines:>7,} lines  {1000 * secs / max(lines, 1):6.1f} ms each")
    for status, (requests, total) in sorted(stored_sums(job.requests).items()):
        print(f"{status}  {requests:>7,} requests  {total:>13,} bytes")


def topology() -> Topology:
    """Return the topology for `python -m engine run`. The process shows the result at its end."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    job = Job(folder, LINES)
    atexit.register(lambda: show(job) if job.requests.exists() else None)
    return job.topology()


def main() -> int:
    parser = argparse.ArgumentParser(description="Count requests of log files by twelve tasks of different speed.")
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the logs, the counts and the position; default: a temporary one")
    parser.add_argument("--lines", type=int, default=LINES, help="number of lines of new logs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        job = Job(arguments.folder or Path(temporary), arguments.lines)
        outcome = run_in_terminal(job.topology())
        if outcome.exit_status or outcome.snapshot is None or outcome.snapshot.state != "complete":
            print("The run was not finished, so its result is not compared.")
            return 1
        show(job)
        is_right = stored_sums(job.requests) == plain_sums(job.logs)
    print(f"The result {'equals' if is_right else 'DIFFERS from'} a plain computation over the same logs.")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
