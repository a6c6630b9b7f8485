"""The word count of a text in plain Python: what the user's own code takes, with no engine around it."""

import itertools
import time
from collections import Counter

from bench.measuring import rate_figures
from bench.texts import standard_library_lines

LINES_AT_ONCE = 256
"""The lines whose words go to the counter in one call, as many as a burst has tuples."""


def count_words(warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Split lines and count their words for the given time. Return the rate."""
    lines = itertools.cycle(standard_library_lines())
    counts: Counter[str] = Counter()

    def count_for(secs: float) -> tuple[int, float]:
        done, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < secs:
            words = [word for line in itertools.islice(lines, LINES_AT_ONCE) for word in line.split()]
            counts.update(words)
            done += len(words)
        return done, took

    count_for(warm_secs)
    return rate_figures(*count_for(measured_secs))
