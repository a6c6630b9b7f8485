# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.quix_app JOB`: Quix Streams, one application, values as bytes, a checkpoint every 2 s."""

from tempfile import TemporaryDirectory

from quixstreams import Application

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, own_job
from bench.kafka.librdkafka_loop import LIBRDKAFKA


def run(job: Job, tally: Tally, folder: str) -> None:
    """Read all; stopping commits."""
    app = Application(
        job.address,
        consumer_group=job.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECS,
        consumer_extra_config=LIBRDKAFKA,
        state_dir=folder,
        loglevel="ERROR",
    )

    def count(value: bytes) -> None:
        if tally.add():
            app.stop()

    records = app.topic(job.topic, value_deserializer="bytes", key_deserializer="bytes")
    app.dataframe(records).update(count)
    app.run()


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    tally = Tally(job.records)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        run(job, tally, folder)
    finish(job, tally)


if __name__ == "__main__":
    main()
