"""Paths and URLs of one round, the only argument of its processes."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

PARTITIONS: Final = 4
ROW_SINKS: Final = ("parquet", "delta", "sqlite", "postgres")
"""Sinks that store each row."""
ROWS: Final = "rows"
"""The query that writes to all of them, unless each has its own."""
WINDOWS: Final = "windows"
"""The query with state."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """One round."""

    folder: str
    database: str
    """URL of PostgreSQL."""
    table: str
    """Table in PostgreSQL, only for this round."""
    master: str = "local[2]"
    jars: tuple[str, ...] = ()
    has_delta: bool = True
    apart: bool = False
    """True if each sink has its own query, with the sink's name. Each query needs further Python processes."""

    @property
    def row_sinks(self) -> tuple[str, ...]:
        """Return the sinks of `ROW_SINKS` that are available here."""
        return tuple(name for name in ROW_SINKS if name != "delta" or self.has_delta)

    @property
    def row_queries(self) -> dict[str, tuple[str, ...]]:
        """Return the sinks of each query that stores rows, in the order of its writes."""
        return {name: (name,) for name in self.row_sinks} if self.apart else {ROWS: self.row_sinks}

    @property
    def queries(self) -> tuple[str, ...]:
        """Return the names of all queries, which are the consumers of the hand-over."""
        return (*self.row_queries, WINDOWS)

    def path(self, name: str) -> Path:
        """Return a path in the folder of the round."""
        return Path(self.folder) / name

    def written(self) -> str:
        """Return the argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> "Places":
        """Parse the argument."""
        fields = json.loads(written)
        return cls(**{**fields, "jars": tuple(fields["jars"])})
