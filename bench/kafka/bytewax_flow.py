# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.bytewax_flow JOB`: Bytewax's own Kafka source, one worker, with its recovery store.

Bytewax commits nothing to Kafka: its offsets go into its own SQLite files, every 2 s here, from which it resumes at least once.
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, own_job
from bench.kafka.librdkafka_loop import LIBRDKAFKA


class Nothing(StatelessSinkPartition[Any]):
    """Gets nothing: a flow must end in an output."""

    def write_batch(self, items: list[Any]) -> None:
        assert not items


class NothingSink(DynamicSink[Any]):
    """Builds the one partition."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Nothing:
        return Nothing()


def flow(job: Job, tally: Tally) -> Dataflow:
    """Describe the dataflow: a filter that counts and keeps nothing, as in the other works; batches of 1,000, the default."""

    def count(record: Any) -> bool:
        tally.add()
        return False

    dataflow = Dataflow("peer")
    records = op.input("records", dataflow, KafkaSource([job.address], [job.topic], tail=False, add_config=LIBRDKAFKA))
    op.output("out", op.filter("null", records, count), NothingSink())
    return dataflow


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    tally = Tally(job.records)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        init_db_dir(Path(folder), 1)
        run_main(flow(job, tally), epoch_interval=timedelta(seconds=COMMIT_SECS), recovery_config=RecoveryConfig(folder))
    finish(job, tally, committed=False)


if __name__ == "__main__":
    main()
