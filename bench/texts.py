"""Texts of the word counts. Imports the standard library only."""

import sysconfig
from pathlib import Path

SENTENCE = "the quick brown fox jumps over the lazy dog"
"""The line of the word count, the same for the engine and all peers."""
WORDS_PER_SENTENCE = len(SENTENCE.split())


def units_of(work: str, tuples: int) -> int:
    """Return the units of `tuples` tuples of a spout. Units are words in the word count, else tuples."""
    return tuples * WORDS_PER_SENTENCE if work == "word-count" else tuples


def standard_library_lines() -> list[str]:
    """Return the lines of the standard library's single-file modules, about 130,000. The main job also reads these lines."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [line for path in modules for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
