# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""Quix Streams, with an application that reads a topic, and one that counts words exactly once. A checkpoint runs every 2 s."""

from tempfile import TemporaryDirectory
from typing import Any

from quixstreams import Application

from bench.kafka.job import COMMIT_SECS, LIBRDKAFKA, Job, Tally, finish, reading_job
from bench.kafka.topics import WORDS_PER_LINE, lines_topic

TEXT: Any = {f"{part}_{way}": "str" for part in ("key", "value") for way in ("serializer", "deserializer")}


def read(records: int) -> dict[str, float]:
    """Read a topic, with values as bytes. `stop` commits the offsets."""
    job, tally = reading_job(records), Tally(records)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        app = _application(job, folder)

        def count(value: bytes) -> None:
            if tally.count_records():
                app.stop()

        stream = app.topic(job.topic, value_deserializer="bytes", key_deserializer="bytes")
        app.dataframe(stream).update(count)
        app.run()
    return finish(job, tally)


def count_words(records: int, grouped: bool) -> dict[str, float]:
    """Count the words of `records` lines from topic to topic, exactly once.

    If grouped, Quix sends words through its own topic, so that a word has one count. It keeps the count in its state, writes the changes to
    another topic, and writes each new count to a third. If not grouped, each partition has its own counts, and each line appends the counts
    of its words. This is no word count of the topic, but the fastest way that Quix has. The clock runs from the first tenth of the words to
    the last word, without the last checkpoint.
    """
    job, tally = reading_job(records, lines_topic(records)), Tally(records * WORDS_PER_LINE)

    def count_word(word: str, state: Any) -> int:
        number: int = state.get("count", 0) + 1
        state.set("count", number)
        if tally.count_records():
            app.stop()
        return number

    def count_line(line: str, state: Any) -> dict[str, int]:
        words, new = line.split(), {}
        for word in words:
            new[word] = state.get(word, 0) + 1
            state.set(word, new[word])
        if tally.count_records(len(words)):
            app.stop()
        return new

    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        app = _application(job, folder, processing_guarantee="exactly-once")
        lines = app.dataframe(app.topic(job.topic, value_deserializer="str", key_deserializer="bytes"))
        counts = app.topic(f"{job.group}-counts", key_serializer="str", value_serializer="json")
        if grouped:
            words = lines.apply(str.split, expand=True).group_by(lambda word: word, "word", **TEXT)
            words.apply(count_word, stateful=True).to_topic(counts)
        else:
            lines.apply(count_line, stateful=True).to_topic(counts, key=lambda new: job.group)
        app.run()
    if tally.seen < tally.expected:
        raise SystemExit(f"{tally.seen:,} words of {tally.expected:,} were counted")
    return tally.figures(job)


def _application(job: Job, folder: str, **settings: Any) -> Application:
    return Application(
        job.address,
        consumer_group=job.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECS,
        consumer_extra_config=LIBRDKAFKA,
        state_dir=folder,
        loglevel="ERROR",
        **settings,
    )
