"""Paths and URLs of one round, and the settings of one process. They are the argument of the process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

STORES: Final = ("sqlite", "redis", "postgres", "files", "kafka")
"""Stores of the committed counts."""
FILES: Final = 4
STRUCK: Final = "struck"
"""File that an engine writes when it has killed a process of Spark."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """One round."""

    folder: str
    name: str
    """Name of the topology, of the topic, and part of the names of its maps."""
    store: str
    url: str
    """URL of the map of counts, or address of the broker. Empty for files."""
    state: str
    """URL of the coordinator's state."""
    master: str
    bolts: str = "plain"
    """Form of the bolts, one of `BOLTS`. On Spark, only the committer is in processes."""

    def path(self, name: str) -> Path:
        """Return a path in the folder of the round."""
        return Path(self.folder) / name


@dataclass(frozen=True, kw_only=True)
class Life:
    """Settings of one process of the engine."""

    places: Places
    batch: int = 10
    """Lines of each file in a batch."""
    pending: int = 2
    step: str | None = None
    """Step at which the victim dies, when the process reaches it for the n-th time."""
    number: int = 1
    victim: str = "engine"

    def written(self) -> str:
        """Return the argument of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> "Life":
        """Parse the argument."""
        fields = json.loads(written)
        return cls(**{**fields, "places": Places(**fields["places"])})
