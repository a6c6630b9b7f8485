"""What is killed: which positions, which kind of producer, how many tasks the spout has, where its positions are stored."""

from dataclasses import dataclass
from itertools import product
from typing import Final

POSITIONS: Final = ("offset", "line", "text")
"""A number; a file and its line; a text that does not sort as it counts."""
PRODUCERS: Final = ("generator", "async")
TASKS: Final = (1, 2)
STATES: Final = ("sqlite", "redis")


@dataclass(frozen=True)
class Combination:
    """One of each."""

    positions: str
    producer: str
    tasks: int
    """Of the spout."""
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
"""A choice of them that has all pairs."""
