# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.librdkafka_loop JOB`: confluent-kafka's `consume`, the fastest client there is, as a line of reference.

It fetches in threads of its own, in C, and so uses a second core.
"""

import time

from confluent_kafka import Consumer

from bench.kafka.job import COMMIT_SECS, Job, Tally, finish, own_job

AT_MOST = 10_000
LIBRDKAFKA = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 100_000, "queued.max.messages.kbytes": 65_536}
"""What serves all peers on librdkafka: without the first, a full queue stops its fetching for a second."""


def read(job: Job, tally: Tally) -> None:
    """Read all; commit what was counted."""
    settings = {"bootstrap.servers": job.address, "group.id": job.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | LIBRDKAFKA)
    consumer.subscribe([job.topic])
    done, commit_at = False, time.monotonic() + COMMIT_SECS
    while not done:
        messages = consumer.consume(AT_MOST, 1.0)
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
        if messages:
            done = tally.add(len(messages))
        if time.monotonic() >= commit_at:
            consumer.commit()
            commit_at = time.monotonic() + COMMIT_SECS
    consumer.commit(asynchronous=False)
    consumer.close()


def main() -> None:
    """Print one line of JSON."""
    job = own_job()
    tally = Tally(job.records)
    read(job, tally)
    finish(job, tally)


if __name__ == "__main__":
    main()
