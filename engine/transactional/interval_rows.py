"""The rows of an interval: as tuples with the attempt in front of their values (TX-1), and as they are stored (EO-9)."""

from collections.abc import Iterable, Iterator

from engine.api import Fields, Tuple
from engine.kernel import Source, make_tuple
from engine.state.codec import Codec
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_collectors import ATTEMPT_FIELD


class IntervalRows:
    """Makes the tuples of one task, and stores them."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._sources: dict[tuple[int, str], Source] = {}

    def with_attempt(self, attempt: TransactionAttempt, burst: Iterable[Tuple]) -> list[Tuple]:
        """Return the tuples with the attempt in front of their values."""
        sources, made = self._sources, []
        for tup in burst:
            name = (tup.source_task, tup.stream)
            source = sources.get(name)
            if source is None:
                source = sources[name] = _source(tup.source_component, tup.stream, tup.source_task, tup.fields)
            made.append(make_tuple((attempt, *tup.values), source))
        return made  # type: ignore[return-value]

    def encoded(self, rows: list[Tuple]) -> bytes:
        """Return the stored form. Raises Unencodable."""
        origins: dict[tuple[int, str], int] = {}
        described: list[object] = []
        places = []
        for tup in rows:
            name = (tup.source_task, tup.stream)
            if name not in origins:
                origins[name] = len(described)
                described.append([tup.source_component, tup.stream, tup.source_task, list(tup.fields)])
            places.append(origins[name])
        return self._codec.encode([described, places, [list(tup.values) for tup in rows]])

    def decoded(self, attempt: TransactionAttempt, blob: bytes) -> Iterator[Tuple]:
        """Yield the tuples of a stored form, with the attempt."""
        described, places, rows = self._codec.decode(blob)
        sources = [_source(*each) for each in described]
        for place, values in zip(places, rows, strict=True):
            yield make_tuple((attempt, *values), sources[place])


def _source(component_id: str, stream: str, task_id: int, names: Iterable[str]) -> Source:
    return Source(component_id, stream, task_id, Fields(ATTEMPT_FIELD, *names))
