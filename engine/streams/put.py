"""`Put`: a sink that sets a value of a map for each key, exactly once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from engine.streams.steps import Batch, SelectStep
from engine.transactional.values import ReducingCommitter, ValueMap

R_contra = TypeVar("R_contra", contravariant=True)


@dataclass(frozen=True)
class Put(Generic[R_contra]):
    """Target of a sink: sets the value of a key in a map, such as `PostgresValues`, to that of the newest row. The newest update wins.

    `key` and `value` are functions of a row. The key is a value that the map takes, or a tuple of such values, which a table has in one
    column, encoded. For a key that people read, make a text of it. The value None deletes the key. An update of a session deletes the
    keys of the sessions that it replaces (WI-3), as `key` returns them for their starts.

    >>> from engine.streams import Flow
    >>> from engine.testing import Feeder, run_topology
    >>> from engine.transactional.values import MemoryValues
    >>> words, counts = Feeder("word"), MemoryValues("counts")
    >>> _ = words.feed_all([("to",), ("be",), ("to",)])
    >>> words.close()
    >>> flow = Flow("example")
    >>> running = flow.stream("words", words, str).key_by(lambda word: word).count(name="counts")
    >>> _ = running.sink("put", Put(counts, key=lambda row: row.value.key, value=lambda row: row.value.value))
    >>> run_topology(flow.topology()).state
    'complete'
    """

    values: ValueMap
    key: Callable[[R_contra], object]
    value: Callable[[R_contra], object]

    def create(self) -> "PutCommitter":
        """Return a new committer, which reads the fields `key` and `value`."""
        made = PutCommitter()
        made.values = self.values
        return made


class PutStep(SelectStep):
    """Replaces each row by its key and its value. The sessions that a row replaces come first, each with the value None."""

    def apply(self, batch: Batch) -> None:
        if not any(getattr(row, "replaces", None) for row in batch.rows):
            super().apply(batch)
            return
        select = self.function
        parts = []
        for row in batch.rows:
            replaced = [row._replace(value=row.value._replace(start_us=start)) for start in getattr(row, "replaces", ())]
            parts.append([*((select(each)[0], None) for each in replaced), select(row)])
        batch.spread(parts)


class PutCommitter(ReducingCommitter[Any, Any, Any]):
    """Keeps the newest value of each key of an interval, and sets it."""

    reads_attempt: ClassVar[bool] = False
    deletes: ClassVar[bool] = True
    keyed_by = ("key",)

    def execute(self, tup: Any) -> None:
        self.partials[tup["key"]] = tup["value"]

    def combine(self, stored: Any, partial: Any) -> Any:
        """Return the new value, whatever is stored. None: there is no value any more."""
        return partial
