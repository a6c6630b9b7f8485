"""Variants of the killed topology: kind of positions, kind of producer, tasks of the spout, store."""

from dataclasses import dataclass
from itertools import product
from typing import Final

POSITIONS: Final = ("offset", "line", "text")
"""A number, a file with a line, or a text whose order is not the order of the records."""
PRODUCERS: Final = ("generator", "async")
TASKS: Final = (1, 2)
STATES: Final = ("sqlite", "redis")


@dataclass(frozen=True)
class Combination:
    """One variant of the killed topology."""

    positions: str
    producer: str
    tasks: int
    """Tasks of the spout."""
    state: str

    def __str__(self) -> str:
        return f"{self.positions}-{self.producer}-{self.tasks}-{self.state}"


COMBINATIONS: Final = tuple(Combination(*each) for each in product(POSITIONS, PRODUCERS, TASKS, STATES))
PAIRS: Final = tuple(
    Combination(*each)
    for each in (
        ("offset", "generator", 1, "sqlite"),
        ("line", "async", 2, "sqlite"),
        ("text", "generator", 2, "redis"),
        ("offset", "async", 2, "redis"),
        ("line", "generator", 1, "redis"),
        ("text", "async", 1, "sqlite"),
    )
)
"""A choice of combinations that contains every pair of values."""
