"""Process of `test_kills`: hands over the lines of files, and kills itself at a named step.

python -m tests.spark_bridge.writer.killed JSON      [folder, state, source, lines of a batch, step or null, number]
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import engine
from engine import Config, Topology
from engine.transactional import FileTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import SparkHandover
from tests.kills.moments import after, before
from tests.kills.steps import Step

_LOCAL: Final = "spark_bridge.handover.storage.local"
_WRITER: Final = "spark_bridge.writer.manifest_writer:ManifestWriter.write_manifest"
_RETENTION: Final = "spark_bridge.writer.retention"
_STATE: Final = "engine.transactional.transactional_state:TransactionalState.save"


def below(folder: str) -> Callable[..., bool]:
    """Return a filter for calls of a storage: names that begin with this folder."""
    return lambda storage, name, *rest: name.startswith(folder)


STEPS: Final = {
    step.name: step
    for step in (
        Step("contract: not linked", f"{_LOCAL}:link", before),
        Step("contract: linked", f"{_LOCAL}:link", after),
        Step("staging: file not begun", "spark_bridge.writer.partition_output:ParquetFile.__init__", before),
        Step("staging: written, not forced to the disk", f"{_LOCAL}:sync_file", before),
        Step("staging: forced to the disk, name not", f"{_LOCAL}:sync_folder", before),
        Step("staging: durable, not reported", "spark_bridge.writer.partition_output:PartitionOutput.finish_files", after),
        Step("commit: staged, no manifest", _WRITER, before),
        Step("commit: drafted, not linked", f"{_LOCAL}:link", before),
        Step("commit: linked, draft there", f"{_LOCAL}:link", after),
        Step("commit: manifest there, state behind", _WRITER, after),
        Step("state: before the save", _STATE, before),
        Step("state: saved", _STATE, after),
        Step("deletion: not noted", f"{_RETENTION}:mark_deleted", before),
        Step("deletion: noted, nothing gone", f"{_RETENTION}:mark_deleted", after),
        Step("deletion: before a manifest goes", f"{_LOCAL}:LocalStorage._remove", before, below("manifests/0")),
        Step("deletion: a manifest gone", f"{_LOCAL}:LocalStorage._remove", after, below("manifests/0")),
        Step("deletion: before a file goes", f"{_LOCAL}:LocalStorage._remove", before, below("files/")),
        Step("deletion: a file gone", f"{_LOCAL}:LocalStorage._remove", after, below("files/")),
    )
}
"""Points at which a process is killed."""


def topology(handover: SparkHandover, source: str, batch: int) -> Topology:
    """Build a topology that hands over lines of files with two tasks."""
    builder = TransactionalTopologyBuilder("killed", "lines", FileTransactionalSpout(source, batch_lines=batch, stop_at_end=True), 2,
                                           max_spout_pending=3)  # fmt: skip
    handover.declare(builder, "spark", 2).shuffle_grouping("lines")
    return builder.build()


def handover_of(folder: str) -> SparkHandover:
    """Return the hand-over that all processes of a test use."""
    return SparkHandover(folder, "line string not null", consumers=("reader",), max_pending_batches=1000)


async def main(folder: str, state: str, source: str, batch: int, step: str | None, number: int) -> None:
    """Run to the end, or to the step that kills the process."""
    if step is not None:
        STEPS[step].arm(number, 0.0)
    shorten_retention_period()
    config = Config(state_provider=f"sqlite:///{state}", batch_interval_ms=5)
    async with engine.run(topology(handover_of(folder), source, batch), config) as run:
        await run.completed()


def shorten_retention_period() -> None:
    """Run retention after each batch."""
    from spark_bridge.writer import manifest_committer

    manifest_committer.RETENTION_PERIOD_SECS = 0.0  # type: ignore[misc]


def written(folder: Path, *rest: Any) -> str:
    """Return the command line argument of one process."""
    return json.dumps([str(folder / "spool"), str(folder / "state.db"), str(folder / "lines"), *rest])


if __name__ == "__main__":
    asyncio.run(main(*json.loads(sys.argv[1])))
