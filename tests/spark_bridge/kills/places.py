"""Where everything of one round is: the processes are told this, and nothing else."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

PARTITIONS: Final = 4
ROW_SINKS: Final = ("parquet", "delta", "sqlite", "postgres")
"""Those that keep each row."""
ROWS: Final = "rows"
"""The query that feeds all of them, where each has not one of its own."""
WINDOWS: Final = "windows"
"""The query that has state."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """One round."""

    folder: str
    database: str
    """URL of PostgreSQL."""
    table: str
    """There; the name is of this round alone."""
    master: str = "local[2]"
    jars: tuple[str, ...] = ()
    has_delta: bool = True
    apart: bool = False
    """True where each sink has a query of its own, called like it; they cost a process of Python each."""

    @property
    def row_sinks(self) -> tuple[str, ...]:
        """Those of `ROW_SINKS` that can be had here."""
        return tuple(name for name in ROW_SINKS if name != "delta" or self.has_delta)

    @property
    def row_queries(self) -> dict[str, tuple[str, ...]]:
        """The sinks of each query that keeps rows, in the order in which it writes to them."""
        return {name: (name,) for name in self.row_sinks} if self.apart else {ROWS: self.row_sinks}

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of all queries, which are the consumers of the hand-over."""
        return (*self.row_queries, WINDOWS)

    def path(self, name: str) -> Path:
        """What is called so in the folder of the round."""
        return Path(self.folder) / name

    def written(self) -> str:
        """As the argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> "Places":
        """What the argument says."""
        fields = json.loads(written)
        return cls(**{**fields, "jars": tuple(fields["jars"])})
