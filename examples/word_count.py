"""Word count over real text, every line tracked to its end: the main job.

    python examples/word_count.py [PATH] [--burst | --state sqlite:///counts.db]
    python -m engine run examples/word_count.py

PATH is a file or a folder of text. The default is the source of the standard library, about 130,000 lines. With --burst, each call of a
component has many tuples. The result is the same, and it is there sooner. With a state provider the counts are durable. Kill the process
with `kill -9` and start it again: it continues after its last checkpoint, and the result is exact.
"""

import argparse
import atexit
import logging
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TextIO

from engine import (
    BasicBolt,
    Burst,
    BurstBolt,
    Config,
    Fields,
    FileSpout,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    bolt,
    spout,
)
from engine.cli import Outcome, run_in_terminal

LOGGER = logging.getLogger("word_count")


class WordCount:
    """One word count: its topology, the lines read, and the words counted."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.lines_read: dict[Path, int] = {}
        self.words: Counter[str] = Counter()

    def topology(self) -> Topology:
        builder = TopologyBuilder("word-count")
        builder.set_spout("lines", lines(self))
        builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
        builder.set_bolt("count", lambda: Count(self.words), parallelism=4).fields_grouping("split", "word")
        return builder.build()

    def plain_count(self) -> tuple[Counter[str], list[Path]]:
        """Count the lines that were read, without the engine. Also return the files that are gone."""
        return count_lines(self.lines_read)


@spout("line")
def lines(job: WordCount) -> Iterator[tuple[str]]:
    """Read one file after the other, and note the number of lines read from each."""
    for path in job.files:
        number = 0
        try:
            with open_text(path) as file:
                for line in file:
                    number += 1
                    yield (line,)
        except OSError as error:
            what = f"its first {number:,} lines are counted, the rest is left out" if number else "it is left out"
            LOGGER.warning("%s cannot be read (%s): %s", path, error.strerror, what)
        finally:
            job.lines_read[path] = number


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


class Count(BasicBolt):
    """Counts the words of its task, and adds them to the total at the end of the run."""

    def __init__(self, words_of_all: Counter[str]) -> None:
        self.words: Counter[str] = Counter()
        self.words_of_all = words_of_all

    def execute(self, tup: Tuple) -> None:
        self.words[tup["word"]] += 1

    def cleanup(self) -> None:
        self.words_of_all.update(self.words)


# The same with --burst: each call has many tuples, and each tuple is still tracked on its own


class BurstWordCount(WordCount):
    """Has the same topology, but takes and emits tuples in bursts."""

    def topology(self) -> Topology:
        builder = TopologyBuilder("word-count")
        builder.set_spout("lines", lists_of_lines(self))
        builder.set_bolt("split", SplitMany, parallelism=2).shuffle_grouping("lines")
        builder.set_bolt("count", lambda: CountMany(self.words), parallelism=4).fields_grouping("split", "word")
        return builder.build()


@spout("line", burst=True)
def lists_of_lines(job: WordCount) -> Iterator[list[tuple[str]]]:
    """Read the lines as above. Each line of a list becomes a tuple of its own."""
    with closing(lines.function(job)) as rows:
        while some := list(islice(rows, 256)):
            yield some


class SplitMany(BurstBolt):
    output_fields = Fields("word")

    def execute_many(self, burst: Burst) -> None:
        for tup, line in burst.items("line"):
            self.collector.emit_each(line.split(), anchors=tup)


class CountMany(BurstBolt):
    """Counts the words of its task. `update` counts a whole burst in C."""

    def __init__(self, words_of_all: Counter[str]) -> None:
        self.words: Counter[str] = Counter()
        self.words_of_all = words_of_all

    def execute_many(self, burst: Burst) -> None:
        self.words.update(burst["word"])

    def cleanup(self) -> None:
        self.words_of_all.update(self.words)


# The same with --state: it survives the death of the process, and the result is exact


class DurableWordCount(WordCount):
    """Keeps the counts in a state. Each checkpoint has the counts and the places in the files up to which they were counted."""

    def __init__(self, files: Sequence[Path], state_provider: str) -> None:
        super().__init__(files)
        self.state_provider = state_provider
        self.words_of: dict[int, Counter[str]] = {}

    def take_words(self, task: int, words: Counter[str]) -> None:
        """Take the words of a task whose instance ends. After a recovery another instance of the same task has newer ones."""
        self.words_of[task] = words
        self.words = sum(self.words_of.values(), Counter())

    def topology(self) -> Topology:
        builder = TopologyBuilder("word-count", Config(state_provider=self.state_provider))
        builder.set_spout("lines", lambda: FileSpout(self.files, errors="replace"), max_spout_pending=20_000)
        builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
        builder.set_bolt("count", lambda: DurableCount(self), parallelism=4).fields_grouping("split", "word")
        return builder.build()

    def plain_count(self) -> tuple[Counter[str], list[Path]]:
        """Count all lines: a run that is complete has counted all of them, in this process or in an earlier one."""
        return count_lines(dict.fromkeys(self.files))


class DurableCount(StatefulBasicBolt):
    """Counts the words of its task in the state."""

    def __init__(self, job: DurableWordCount) -> None:
        self.job = job

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.state.put(word, self.state.get(word, 0) + 1)

    def cleanup(self) -> None:
        self.job.take_words(self.context.task_index, Counter(dict(self.state.items())))


# The program


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the words of a text, every line tracked to its end.")
    parser.add_argument("path", nargs="?", type=Path, help="a file or a folder of text; default: the standard library's sources")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--burst", action="store_true", help="pass many tuples in each call, which is faster")
    form.add_argument("--state", metavar="URL", help="store of the counts, such as sqlite:///counts.db: another start continues them")
    arguments = parser.parse_args()
    path: Path | None = arguments.path
    if path is not None and not path.exists():
        parser.error(f"{path} does not exist")
    files = standard_library() if path is None else files_of(path)
    if not files:
        parser.error(f"there is no file in {path}")
    if arguments.state is not None:
        job: WordCount = DurableWordCount(files, arguments.state)
    else:
        job = BurstWordCount(files) if arguments.burst else WordCount(files)
    outcome = run_in_terminal(job.topology())
    show_words(job)
    return show_outcome(job, outcome)


def topology() -> Topology:
    """Return the topology for `python -m engine run`. The process shows the words at its end."""
    job = WordCount(standard_library())
    atexit.register(show_words, job)
    return job.topology()


def standard_library() -> list[Path]:
    return sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or the files of a folder and all folders below, sorted."""
    if path.is_file():
        return [path]
    walk = os.walk(path, onerror=lambda error: LOGGER.warning("%s cannot be read (%s): it is left out", error.filename, error.strerror))
    found = (Path(folder, name) for folder, _, names in walk for name in names)
    return sorted(file for file in found if file.is_file())


def open_text(path: Path) -> TextIO:
    """Open a file as text, with any bytes."""
    return path.open(encoding="utf-8", errors="replace")


def show_words(job: WordCount) -> None:
    for word, count in job.words.most_common(20):
        print(f"{count:>9,}  {word}")


def show_outcome(job: WordCount, outcome: Outcome) -> int:
    """Print the work done, the speed, and whether the result is right. Returns the exit status."""
    now = outcome.snapshot
    if now is None or outcome.exit_status:
        print("The run was not finished, so its result is not compared.")
        return 1
    words, read = now.components["split"].emitted, sum(job.lines_read.values())
    tuples = sum(component.transferred for component in now.components.values())
    acks = sum(component.acked for component in now.components.values() if component.kind == "bolt")
    done = sum(spout.acked for spout in now.spouts)
    is_durable = isinstance(job, DurableWordCount)
    if is_durable and now.state != "complete":
        print(f"{done:,} lines done. The run was interrupted: start it again, and it continues.")
        return 0
    if is_durable and not done:
        print("No line was left to count: it was finished.")
        return compare(job)
    print(f"{done:,} lines done: " if is_durable else f"{done:,} of {read:,} lines done: ", end="")
    print(f"{tuples:,} tuples, {acks:,} acks")
    print(f"{words:,} words in {now.uptime_secs:.2f} s: {words / now.uptime_secs:,.0f} words/s")
    if now.state != "complete":
        print("The run was interrupted. The following compares the lines read until then.")
    return compare(job)


def compare(job: WordCount) -> int:
    """Compare the result with a plain count. Returns the exit status."""
    plain, gone = job.plain_count()
    if not gone and job.words == plain:
        print("The result equals a plain count of the same text.")
    elif gone and job.words >= plain:
        print(f"The result holds a plain count of the same text, except for what is no longer there: {', '.join(map(str, gone))}.")
    else:
        wrong = sum((job.words - plain).values()) + sum((plain - job.words).values())
        print(f"The result DIFFERS from a plain count of the same text, by {wrong:,} words.")
        return 1
    return 0


def count_lines(lines_of: Mapping[Path, int | None]) -> tuple[Counter[str], list[Path]]:
    """Count the words of files, each up to a number of lines (None: to its end). Also return the files that are gone."""
    plain: Counter[str] = Counter()
    gone: list[Path] = []
    for path, number in lines_of.items():
        try:
            with open_text(path) as file:
                for line in islice(file, number):
                    plain.update(line.split())
        except OSError:
            gone.extend([] if number == 0 else [path])
    return plain, gone


if __name__ == "__main__":
    sys.exit(main())
