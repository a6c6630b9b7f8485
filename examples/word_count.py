"""Word count over real text, every line tracked to its end: the main job.

    python examples/word_count.py [PATH]
    python -m engine run examples/word_count.py

PATH is a file, or a folder of text. Without it the standard library's own sources are counted, about 130,000 lines.
"""

import argparse
import atexit
import logging
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from engine import BasicBolt, Topology, TopologyBuilder, Tuple, bolt, spout
from engine.cli import Outcome, run_in_terminal

LOGGER = logging.getLogger("word_count")


class WordCount:
    """One word count: its topology, what was read, and what came of it."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.lines_read: list[tuple[Path, int]] = []
        self.words: Counter[str] = Counter()

    def topology(self) -> Topology:
        builder = TopologyBuilder("word-count")
        builder.set_spout("lines", lines(self))
        builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
        builder.set_bolt("count", lambda: Count(self.words), parallelism=4).fields_grouping("split", "word")
        return builder.build()


@spout("line")
def lines(job: WordCount) -> Iterator[tuple[str]]:
    """Reads one file after the other, and notes how far it came in each."""
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
            job.lines_read.append((path, number))


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


class Count(BasicBolt):
    """Counts the words that come to its task; they join the words of all tasks when the run ends."""

    def __init__(self, words_of_all: Counter[str]) -> None:
        self.words: Counter[str] = Counter()
        self.words_of_all = words_of_all

    def execute(self, tup: Tuple) -> None:
        self.words[tup["word"]] += 1

    def cleanup(self) -> None:
        self.words_of_all.update(self.words)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the words of a text, every line tracked to its end.")
    parser.add_argument("path", nargs="?", type=Path, help="a file or a folder of text; default: the standard library's sources")
    path: Path | None = parser.parse_args().path
    if path is not None and not path.exists():
        parser.error(f"{path} does not exist")
    files = standard_library() if path is None else files_of(path)
    if not files:
        parser.error(f"there is no file in {path}")
    job = WordCount(files)
    outcome = run_in_terminal(job.topology())
    show_words(job)
    return show_outcome(job, outcome)


def topology() -> Topology:
    """What `python -m engine run` runs; the words are shown when its process ends."""
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
    """Open a file as text, whatever its bytes are."""
    return path.open(encoding="utf-8", errors="replace")


def show_words(job: WordCount) -> None:
    for word, count in job.words.most_common(20):
        print(f"{count:>9,}  {word}")


def show_outcome(job: WordCount, outcome: Outcome) -> int:
    """Say what was done, how fast, and whether it is right; return the exit status."""
    now = outcome.snapshot
    if now is None or outcome.exit_status:
        print("The run was not finished, so its result is not compared.")
        return 1
    words, read = job.words.total(), sum(number for _, number in job.lines_read)
    tuples = sum(component.transferred for component in now.components.values())
    acks = sum(component.acked for component in now.components.values() if component.kind == "bolt")
    done = sum(spout.acked for spout in now.spouts)
    print(f"{done:,} of {read:,} lines done: {tuples:,} tuples, {acks:,} acks")
    print(f"{words:,} words in {now.uptime_secs:.2f} s: {words / now.uptime_secs:,.0f} words/s")
    if now.state != "complete":
        print("The run was interrupted; what follows is about the lines that were read until then.")
    return compare(job)


def compare(job: WordCount) -> int:
    """Say whether the result equals a plain count of the lines that were read; return the exit status."""
    plain: Counter[str] = Counter()
    gone: list[Path] = []
    for path, number in job.lines_read:
        try:
            with open_text(path) as file:
                for line in islice(file, number):
                    plain.update(line.split())
        except OSError:
            gone.extend([path] if number else [])
    if not gone and job.words == plain:
        print("The result equals a plain count of the same text.")
    elif gone and job.words >= plain:
        print(f"The result holds a plain count of the same text, except for what is no longer there: {', '.join(map(str, gone))}.")
    else:
        wrong = sum((job.words - plain).values()) + sum((plain - job.words).values())
        print(f"The result DIFFERS from a plain count of the same text, by {wrong:,} words.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
