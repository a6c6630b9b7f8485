"""Runs the engine and Spark together in one asyncio program."""

import asyncio
from pathlib import Path
from typing import Final

import engine
from engine.transactional.spouts import AnySpout
from spark_bridge import SparkConfig, run_pipeline
from spark_bridge.pipeline import PipelineSnapshot
from topology import build

PIPELINE: Final = Path(__file__).with_name("pipeline.py")
TELL_SECS: Final = 5.0


async def run(folder: Path, lines: AnySpout, spark: SparkConfig) -> None:
    """Run the engine and Spark until Spark has committed all batches of the engine."""
    async with engine.run(build(folder, lines)) as etl:
        progress = Progress(etl)
        telling = asyncio.create_task(progress.tell())
        try:
            await run_pipeline(
                PIPELINE,
                folder / "handover",
                checkpoints=folder / "checkpoints",
                spark=spark,
                until=etl.completed(),
                on_progress=progress.take,
                on_note=lambda text: say(f"    {text}"),
            )
        finally:
            telling.cancel()
        progress.show()


class Progress:
    """Prints the progress of both every `TELL_SECS`."""

    def __init__(self, etl: engine.Run) -> None:
        self._etl = etl
        self._spark = PipelineSnapshot("")

    def take(self, now: PipelineSnapshot) -> None:
        self._spark = now

    async def tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECS)
            self.show()

    def show(self) -> None:
        lines = self._etl.snapshot().components["clean"].executed
        queries = ", ".join(f"{name} {query.txid}" for name, query in self._spark.queries.items()) or self._spark.state
        say(f"    {lines:>9,} lines read, {self._spark.newest_txid} transactions handed over; done by Spark: {queries}")


def say(text: str) -> None:
    print(text, flush=True)
