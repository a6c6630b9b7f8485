# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`consume` of confluent-kafka, the fastest client, as a reference. It fetches in C threads, so it uses a second core."""

import time

from confluent_kafka import Consumer

from bench.kafka.job import COMMIT_SECS, LIBRDKAFKA, Tally, finish, reading_job

AT_MOST = 10_000


def read(records: int, takes_fields: bool = False) -> dict[str, float]:
    """Read a topic. Commit every 2 s. takes_fields: take what a source needs of each record, in one pass."""
    job, tally = reading_job(records), Tally(records)
    settings = {"bootstrap.servers": job.address, "group.id": job.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | LIBRDKAFKA)
    consumer.subscribe([job.topic])
    done, commit_at = False, time.monotonic() + COMMIT_SECS
    while not done:
        messages = consumer.consume(AT_MOST, 1.0)
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
        if takes_fields:
            for message in messages:
                message.value(), message.key(), message.partition(), message.offset(), message.timestamp(), message.headers()
        if messages:
            done = tally.count_records(len(messages))
        if time.monotonic() >= commit_at:
            consumer.commit()
            commit_at = time.monotonic() + COMMIT_SECS
    consumer.commit(asynchronous=False)
    consumer.close()
    return finish(job, tally)
