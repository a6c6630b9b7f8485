"""What is killed: which spout, where the values are, where the coordinator's state is; all pairs of them."""

from dataclasses import dataclass
from typing import Final

SPOUTS: Final = ("file", "kafka", "opaque file", "opaque kafka")
STORES: Final = ("sqlite", "redis", "postgres")
STATES: Final = ("sqlite", "redis", "zookeeper")


@dataclass(frozen=True)
class Combination:
    """One of each."""

    spout: str
    values: str
    """Where words are counted."""
    state: str

    @property
    def other_values(self) -> str:
        """Where all words together are counted, and where the counts of words are copied to: the next database."""
        return STORES[(STORES.index(self.values) + 1) % len(STORES)]

    @property
    def is_opaque(self) -> bool:
        """True where replays may differ."""
        return self.spout.startswith("opaque")

    @property
    def reads_kafka(self) -> bool:
        """True where lines come from Kafka."""
        return self.spout.endswith("kafka")

    @property
    def needs(self) -> frozenset[str]:
        """The servers."""
        return frozenset({self.values, self.other_values, self.state, "kafka" if self.reads_kafka else "sqlite"} - {"sqlite"})

    def __str__(self) -> str:
        return f"{self.spout}, {self.values}, {self.state}".replace(" ", "-").replace(",", "")


COMBINATIONS: Final = tuple(
    Combination(spout, values, STATES[(STORES.index(values) + SPOUTS.index(spout)) % len(STATES)]) for spout in SPOUTS for values in STORES
)
"""Each spout with all values and all states, and all values with all states."""
