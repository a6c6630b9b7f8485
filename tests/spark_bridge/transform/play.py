"""Runs a topology whose batches go through Spark, and returns its committed rows."""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from engine import Config, FailedBatch, Fields, Tuple, run
from engine.runtime.run import Run
from engine.transactional import BatchBolt, FileCommitter, MemoryTransactionalSpout, TransactionalTopologyBuilder, committed_lines
from spark_bridge.process import SparkConfig
from spark_bridge.transform import SparkTransform
from tests.spark_bridge.spark_fixtures import LOCAL

SCHEMA = "number long not null, word string"
ROWS = [(f"word {number}", number) for number in range(40)]
DOUBLED = [{"number": 2 * number, "word": f"word {number}"} for number in range(40)]
RUN_SECS = 200


def double(rows: Any) -> Any:
    return rows.selectExpr("word", "2 * number as number", "'x' as more")


class Breaker(BatchBolt):
    """Fails the first attempt of the first batch when a file exists."""

    output_fields = Fields("nothing")

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Tuple) -> None:
        return

    async def finish_batch(self) -> None:
        if not await asyncio.to_thread(os.path.exists, f"{self.path}.broken"):
            await there(self.path)
            await touch(f"{self.path}.broken")
            raise FailedBatch("broken by the test")


class Played:
    """Result of a run."""

    def __init__(self, rows: list[dict[str, Any]], errors: list[str]) -> None:
        self.rows = rows
        self.errors = errors


async def run_transform(
    folder: Path,
    function: Callable[[Any], Any] = double,
    *,
    rows: Sequence[tuple[str, int]] = ROWS,
    take: int = 10,
    config: SparkConfig = LOCAL,
    breaks_at: Path | None = None,
    during: Callable[[Run], Awaitable[None]] | None = None,
    **options: Any,
) -> Played:
    """Run rows through a function on Spark, in two tasks and two concurrent batches. Return the sorted rows and the errors."""
    settings = {"schema": SCHEMA, "output_fields": ("number", "word"), **options}
    builder = TransactionalTopologyBuilder("spark", "rows", MemoryTransactionalSpout(rows, ("word", "number"), take))
    builder.set_bolt("transform", SparkTransform(function, config=config, **settings), 2).shuffle_grouping("rows")
    if breaks_at is not None:
        builder.set_bolt("breaker", lambda: Breaker(str(breaks_at))).global_grouping("rows")
    builder.set_bolt("out", FileCommitter(folder / "out")).global_grouping("transform")
    async with run(builder.build(), Config(max_spout_pending=2)) as running:
        if during is not None:
            await during(running)
        async with asyncio.timeout(RUN_SECS):
            await running.completed()
        errors = [report.text for report in running.snapshot().errors]
    return Played(sorted(map(json.loads, committed_lines(folder / "out")), key=lambda row: str(sorted(row.items()))), errors)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(sorted(row.items())))


async def there(path: str | Path) -> None:
    """Wait until a file exists."""
    for _ in range(6000):
        if await asyncio.to_thread(os.path.exists, path):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} did not come")


async def touch(path: str | Path) -> None:
    """Create a file."""
    await asyncio.to_thread(Path(path).touch)


def spools() -> list[Path]:
    """Return the remaining folders of spools."""
    return list(Path(tempfile.gettempdir()).glob("stormcell-spool-*"))
