# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.transactions.quix_words WAY JOB`: Quix Streams, exactly once, a word count from topic to topic; a checkpoint every 2 s.

WAY is grouped or by-partition. Grouped, words go by way of a topic of its making, so that a word has one count; it is kept in its state,
whose changes go into another topic, and each new count into a third. By partition, each partition has counts of its own, and each line
appends those of its words: no word count of the topic, but the fastest that it has. The clock runs from the first tenth of the words to the
last; its last checkpoint is not in it.
"""

import sys
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from quixstreams import Application

from bench.compare.work import print_result
from bench.kafka.job import COMMIT_SECS, Job, Tally, job_of
from bench.kafka.librdkafka_loop import LIBRDKAFKA
from bench.transactions.catalog import WORDS_PER_LINE

TEXT: Any = {f"{part}_{way}": "str" for part in ("key", "value") for way in ("serializer", "deserializer")}


def run(way: str, job: Job, tally: Tally, folder: str) -> None:
    """Count all."""
    app = Application(
        job.address,
        consumer_group=job.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECS,
        consumer_extra_config=LIBRDKAFKA,
        processing_guarantee="exactly-once",
        state_dir=folder,
        loglevel="ERROR",
    )
    lines = app.dataframe(app.topic(job.topic, value_deserializer="str", key_deserializer="bytes"))
    counts = app.topic(f"{job.group}-counts", key_serializer="str", value_serializer="json")
    if way == "grouped":
        words = lines.apply(str.split, expand=True).group_by(lambda word: word, "word", **TEXT)
        words.apply(partial(_count_word, tally, app), stateful=True).to_topic(counts)
    else:
        lines.apply(partial(_count_line, tally, app), stateful=True).to_topic(counts, key=lambda new: job.group)
    app.run()


def _count_word(tally: Tally, app: Application, word: str, state: Any) -> int:
    number: int = state.get("count", 0) + 1
    state.set("count", number)
    if tally.add():
        app.stop()
    return number


def _count_line(tally: Tally, app: Application, line: str, state: Any) -> dict[str, int]:
    words, new = line.split(), {}
    for word in words:
        new[word] = state.get(word, 0) + 1
        state.set(word, new[word])
    if tally.add(len(words)):
        app.stop()
    return new


def main() -> None:
    """Print one line of JSON."""
    way, job = sys.argv[1], job_of(sys.argv[2:])
    tally = Tally(job.records * WORDS_PER_LINE)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        run(way, job, tally, folder)
    if tally.seen < tally.expected:
        raise SystemExit(f"{tally.seen:,} words of {tally.expected:,} were counted")
    times = {"start_secs": tally.first_at - job.started, "whole_secs": tally.last_at - job.started}
    print_result(tally.expected - tally.warm, tally.last_at - tally.from_at, **times)


if __name__ == "__main__":
    main()
