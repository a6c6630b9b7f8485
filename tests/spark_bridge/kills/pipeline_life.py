"""One life of the pipeline, as a separate process, with Spark's child and its JVM.

python -m tests.spark_bridge.kills.pipeline_life JSON      Places. Prints its progress as lines of JSON

After a line on stdin it ends when it has caught up. At the end of stdin it dies, so it never outlives the test.
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
"""Spark waits only ten seconds for the start of a Python process, too little on a busy machine."""


async def main(places: Places) -> None:
    """Run the pipeline."""
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
    """Read a line of stdin, or its end."""
    if not os.read(sys.stdin.fileno(), 100):
        os.kill(os.getpid(), signal.SIGKILL)
    finish.set()


def tell(now: PipelineSnapshot) -> None:
    """Print the progress."""
    queries = {name: [query.batches, query.txid, query.restarts] for name, query in now.queries.items()}
    sys.stdout.write(json.dumps({"deaths": now.deaths, "queries": queries}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Places.read(sys.argv[1])))
