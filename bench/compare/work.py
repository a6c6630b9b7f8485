"""The works that every contestant does, and how it says what it took."""

import json
from dataclasses import dataclass

SENTENCE = "the quick brown fox jumps over the lazy dog"
"""The line of the word count; the same on every contestant."""

WORDS_PER_SENTENCE = len(SENTENCE.split())


@dataclass(frozen=True, eq=False)
class Work:
    """One topology and how much of it a run does."""

    name: str
    summary: str
    unit: str
    tuples: int
    """Spout tuples of one run, for contestants that run a fixed number."""

    @property
    def quick_tuples(self) -> int:
        """Return the number for a run that only shows that it works."""
        return max(self.tuples // 20, 1)


CONST_NULL = Work("const-null", "const spout -> null bolt, every tree acked", "tuple", 2_000_000)
CONST_ID_NULL = Work("const-id-null", "const spout -> id bolt -> null bolt, every tree acked", "tuple", 1_500_000)
UNACKED = Work("un-acked", "const spout -> null bolt, nothing tracked", "tuple", 3_000_000)
WORD_COUNT = Work("word-count", "fixed sentence, 2 splitters, 4 counters, one emit per word, every tree acked", "word", 200_000)

WORKS = (CONST_NULL, CONST_ID_NULL, UNACKED, WORD_COUNT)


def units_of(work: str, tuples: int) -> int:
    """Return how many units (tuples, in the word count words) so many spout tuples of a work are."""
    return tuples * WORDS_PER_SENTENCE if work == WORD_COUNT.name else tuples


def print_result(units: float, secs: float, **more: float) -> None:
    """Print the line of JSON of a measured run."""
    print(json.dumps({"units": units, "ns": round(secs * 1e9 / units, 1), "per_second": round(units / secs)} | more))
