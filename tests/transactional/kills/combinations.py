"""Combinations of a spout, a store of values and a store of the coordinator's state; all pairs occur."""

from dataclasses import dataclass
from typing import Final

SPOUTS: Final = ("file", "kafka", "opaque file", "opaque kafka")
STORES: Final = ("sqlite", "redis", "postgres")
STATES: Final = ("sqlite", "redis", "zookeeper")


@dataclass(frozen=True)
class Combination:
    """One spout with its stores."""

    spout: str
    values: str
    """Database in which words are counted."""
    state: str

    @property
    def other_values(self) -> str:
        """Another database, for the total and for the copied counts."""
        return STORES[(STORES.index(self.values) + 1) % len(STORES)]

    @property
    def is_opaque(self) -> bool:
        """Whether replays may differ."""
        return self.spout.startswith("opaque")

    @property
    def reads_kafka(self) -> bool:
        """Whether lines come from Kafka."""
        return self.spout.endswith("kafka")

    @property
    def needs(self) -> frozenset[str]:
        """Names of the servers that it needs."""
        return frozenset({self.values, self.other_values, self.state, "kafka" if self.reads_kafka else "sqlite"} - {"sqlite"})

    def __str__(self) -> str:
        return f"{self.spout}, {self.values}, {self.state}".replace(" ", "-").replace(",", "")


COMBINATIONS: Final = tuple(
    Combination(spout, values, STATES[(STORES.index(values) + SPOUTS.index(spout)) % len(STATES)]) for spout in SPOUTS for values in STORES
)
"""Each spout with all values and all states, and all values with all states."""
