"""Runs pipelines of a test, and collects their notes and snapshots."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Unpack

from spark_bridge.pipeline.progress import PipelineSnapshot
from spark_bridge.pipeline.run import HostOptions, Until, run_pipeline
from spark_bridge.process import SparkChild, SparkConfig
from tests.spark_bridge.pipeline.folders import Folder
from tests.spark_bridge.spark_fixtures import LOCAL

LIMIT_SECS: Final = 200.0
"""On a busy machine the first micro-batch can take a minute."""


class Playing:
    """One folder, its checkpoints, and the runs of pipelines over it."""

    def __init__(self, child: SparkChild, path: Path) -> None:
        self._child = child
        self.path = path
        self.out = path / "out"
        self.notes: list[str] = []
        self.seen: list[PipelineSnapshot] = []

    def folder(self, *consumers: str, is_there: bool = True) -> Folder:
        """Return the hand-over of the test."""
        return Folder(self.path / "handover", consumers=consumers, is_there=is_there)

    def file(self, text: str, name: str = "flow.py") -> str:
        """Write a pipeline file, in which OUT is the output folder. Return its path."""
        (self.path / name).write_text(f"OUT = {str(self.out)!r}\n{text}")
        return str(self.path / name)

    async def run(
        self,
        pipeline: str | Callable[..., object],
        until: Until = "caught up",
        *,
        spark: SparkConfig = LOCAL,
        checkpoints: str = "checkpoints",
        **options: Unpack[HostOptions],
    ) -> PipelineSnapshot:
        """Run a pipeline to its end. Return the last snapshot."""
        options = {"on_progress": self.seen.append, "on_note": self.notes.append, **options}
        async with asyncio.timeout(LIMIT_SECS):
            return await run_pipeline(
                pipeline, self.path / "handover", checkpoints=self.path / checkpoints, spark=spark, until=until, **options
            )

    async def active(self) -> list[str]:
        """Return the names of the queries that run in the shared session."""
        names: list[str] = await self._child.call(lambda spark, call: [query.name for query in spark.streams.active])
        return names

    def tell(self) -> None:
        """Create the file for which the code of a pipeline waits."""
        Path(f"{self.out}.told").touch()

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file in the output folder. Empty without the file."""
        file = self.out / name
        return file.read_text().splitlines() if file.exists() else []
