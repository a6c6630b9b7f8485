"""The killed topologies: all pairs of a spout, a store of values, and a store of the coordinator's state."""

from dataclasses import dataclass
from typing import Final

SPOUTS: Final = ("file", "kafka", "opaque file", "opaque kafka")
STORES: Final = ("sqlite", "redis", "postgres")
STATES: Final = ("sqlite", "redis", "zookeeper")


@dataclass(frozen=True)
class Combination:
    """One spout and its stores."""

    spout: str
    values: str
    """Store of the counts of words."""
    state: str

    @property
    def other_values(self) -> str:
        """Store of the total, and of the copy of the counts: the next database."""
        return STORES[(STORES.index(self.values) + 1) % len(STORES)]

    @property
    def is_opaque(self) -> bool:
        """True if replays may differ."""
        return self.spout.startswith("opaque")

    @property
    def reads_kafka(self) -> bool:
        """True if lines come from Kafka."""
        return self.spout.endswith("kafka")

    @property
    def needs(self) -> frozenset[str]:
        """Names of the servers."""
        return frozenset({self.values, self.other_values, self.state, "kafka" if self.reads_kafka else "sqlite"} - {"sqlite"})

    def __str__(self) -> str:
        return f"{self.spout}, {self.values}, {self.state}".replace(" ", "-").replace(",", "")


COMBINATIONS: Final = tuple(
    Combination(spout, values, STATES[(STORES.index(values) + SPOUTS.index(spout)) % len(STATES)]) for spout in SPOUTS for values in STORES
)
"""Each spout with all values and all states, and all values with all states."""
