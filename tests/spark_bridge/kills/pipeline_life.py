"""One life of the pipeline, as a process of its own, with Spark's child and its JVM behind it.

python -m tests.spark_bridge.kills.pipeline_life JSON      Places; tells its progress, a line of JSON each time

It ends when it has caught up, once a line has come by stdin; it dies with the program that holds the other end of that.
"""

import asyncio
import json
import os
import signal
import sys
from typing import Final

from spark_bridge import run_pipeline
from spark_bridge.pipeline import PipelineSnapshot
from tests.spark_bridge.kills.flow import TRANSACTIONS_PER_BATCH, pipeline_of, spark_config
from tests.spark_bridge.kills.places import Places

MOST_RESTARTS: Final = 30
"""Spark waits ten seconds for a Python that it starts, which is not enough on a machine that is busy with others."""


async def main(places: Places) -> None:
    """Run."""
    finish = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, take, finish)
    await run_pipeline(
        pipeline_of(places),
        places.path("handover"),
        checkpoints=places.path("checkpoints"),
        spark=spark_config(places),
        until=finish.wait(),
        most_restarts=MOST_RESTARTS,
        source={"maxTransactionsPerBatch": TRANSACTIONS_PER_BATCH},
        on_progress=tell,
        on_note=lambda text: print(text, file=sys.stderr, flush=True),
    )


def take(finish: asyncio.Event) -> None:
    """A line of stdin, or its end."""
    if not os.read(sys.stdin.fileno(), 100):
        os.kill(os.getpid(), signal.SIGKILL)
    finish.set()


def tell(now: PipelineSnapshot) -> None:
    """How far it is."""
    queries = {name: [query.batches, query.txid, query.restarts] for name, query in now.queries.items()}
    sys.stdout.write(json.dumps({"deaths": now.deaths, "queries": queries}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Places.read(sys.argv[1])))
