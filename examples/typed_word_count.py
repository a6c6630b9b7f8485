"""Word count as a flow: typed rows instead of tuples, functions instead of bolts.

Counts the words of text files, and compares the result with a plain count: `python examples/typed_word_count.py FILE...`
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from engine import FileSpout
from engine.cli import run_in_terminal
from engine.streams import Flow, Keyed, Revised


def words(line: str) -> Iterator[str]:
    """Yield the words of a line."""
    yield from line.lower().split()


class Totals:
    """Keeps the newest count of each word. An update replaces the one before it."""

    counts: dict[str, int] = {}

    def __call__(self, row: Revised[Keyed[str, int]]) -> None:
        """Take one update."""
        self.counts[row.value.key] = row.value.value


def word_count(files: list[str]) -> Flow:
    """Return the flow that counts the words of files."""
    flow = Flow("typed-word-count")
    lines = flow.stream("lines", lambda: FileSpout(files), str)
    counts = lines.flat_map(words).key_by(lambda word: word).count(name="counts", parallelism=2)
    counts.sink("totals", Totals)
    return flow


if __name__ == "__main__":
    ended = run_in_terminal(word_count(sys.argv[1:]).topology())
    expected = Counter(word for file in sys.argv[1:] for word in Path(file).read_text(encoding="utf-8").lower().split())
    print(*(f"{count:6,} {word}" for word, count in expected.most_common(3)), sep="\n")
    if Totals.counts != expected:
        sys.exit("The result differs from a plain count of the same text.")
    print("The result equals a plain count of the same text.")
    sys.exit(ended.exit_status)
