"""Flows of the works of streams."""

from collections.abc import Callable
from typing import Any, Final

from bench.streams.hits import Hit
from engine import Burst, BurstBolt, BurstSpout, Fields, SpoutExhausted, Topology
from engine.streams import Flow, seconds, session, sliding, tumbling

SECS: Final = 60
"""Size of the windows."""


class HitSpout(BurstSpout):
    """Emits a list of rows once, in bursts. Its position is the number of rows."""

    output_fields = Fields(*Hit._fields)

    def __init__(self, rows: list[Hit]) -> None:
        self.rows, self.emitted = rows, 0

    def next_tuples(self, limit: int) -> None:
        if self.emitted >= len(self.rows):
            raise SpoutExhausted
        part = self.rows[self.emitted : self.emitted + limit]
        self.emitted += len(part)
        self.collector.emit_many(part)

    def seek(self, position: int | None) -> None:
        self.emitted = position or 0

    def position(self) -> int:
        return self.emitted


class Results(BurstBolt):
    """Counts results and the rows in them."""

    results = 0
    rows = 0

    def execute_many(self, burst: Burst) -> None:
        self.results += len(burst)
        self.rows += sum([one.value for one in burst["row"]])


def _by_field(flow: Any) -> Any:
    return flow.key_by("key")


def _by_lambda(flow: Any) -> Any:
    return flow.key_by(lambda hit: hit.key)


WINDOWS: Final[dict[str, Callable[[Any], Any]]] = {
    "field": lambda rows: _by_field(rows).window(tumbling(seconds(SECS))).count(name="window"),
    "lambda": lambda rows: _by_lambda(rows).window(tumbling(seconds(SECS))).count(name="window"),
    "sum": lambda rows: _by_field(rows).window(tumbling(seconds(SECS))).sum(lambda hit: 1, name="window"),
    "sliding": lambda rows: _by_field(rows).window(sliding(seconds(SECS), every=seconds(1))).sum(lambda hit: 1, name="window"),
    "sessions": lambda rows: _by_field(rows).window(session(gap=seconds(SECS // 4))).count(name="window"),
}
"""Streams of results, each from a stream of rows with event times."""


def windows(
    kind: str, rows: list[Hit], sink: Callable[[], Any], *, source: Callable[[list[Hit]], Any] = HitSpout, pending: int | None = None
) -> Topology:
    """Return a topology with one kind of windows. pending: rows of the source that are not processed yet."""
    flow = Flow(f"windows-{kind}")
    settings: dict[str, Any] = {} if pending is None else {"max_spout_pending": pending}
    stream = flow.stream("hits", lambda: source(rows), Hit, **settings)
    WINDOWS[kind](stream.event_time("at")).sink("results", sink)
    return flow.topology()
