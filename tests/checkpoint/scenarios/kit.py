"""A small world for the scenarios of exact sources: numbered rows, bolts that treat them badly, and a table of what was counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from engine import BasicBolt, Config, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple, spout
from engine.testing import Fault, run_topology

FAST: Final = Config(state_checkpoint_interval_ms=1000)


class Numbers(Spout):
    """Emits the rows 0 to n - 1, `burst` of them in each poll, one poll every `pace_secs`."""

    output_fields = "n"

    def __init__(self, rows: int, *, pace_secs: float = 0.0, burst: int = 1, ids: bool = False, first: int = 0) -> None:
        self.rows, self.pace_secs, self.burst, self.ids, self.first = rows, pace_secs, burst, ids, first
        self.due = 0.0

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if self.next >= self.rows:
            raise SpoutExhausted
        if now < self.due:
            return
        self.due = now + self.pace_secs
        rows = [(self.first + n,) for n in range(self.next, min(self.next + self.burst, self.rows))]
        self.next += len(rows)
        if self.burst > 1:
            self.collector.emit_many(rows)
        else:
            self.collector.emit(rows[0], rows[0][0] if self.ids else None)


@spout("n")
def plain() -> Iterator[tuple[int]]:
    """Emit the rows 1000 to 1039, which cannot come again."""
    for number in range(1000, 1040):
        yield (number,)


class PassOn(BasicBolt):
    """Passes on its input."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        return (tup["n"],)


class Told:
    """A table of the counts of all tasks, as the state of each has them at the end of its instance. Factory of the bolts that count."""

    def __init__(self) -> None:
        self.by_task: dict[tuple[str, int], dict[Any, int]] = {}

    def create(self) -> Any:
        return Tally(self)

    def note(self, bolt: Any) -> None:
        """Note what the state of a bolt has. An instance that has had no state tells nothing."""
        if hasattr(bolt, "state"):
            self.by_task[bolt.context.component_id, bolt.context.task_index] = dict(bolt.state.items())

    def counts(self, component_id: str = "count") -> Counter[Any]:
        """Return the counts of a component."""
        total: Counter[Any] = Counter()
        for (component, _), counts in self.by_task.items():
            if component == component_id:
                total.update(counts)
        return total


class Tally(StatefulBasicBolt):
    """Counts each row in its state."""

    def __init__(self, told: Told) -> None:
        self.told = told

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], self.state.get(tup["n"], 0) + 1)

    def cleanup(self) -> None:
        self.told.note(self)


def once(rows: int) -> Counter[Any]:
    """Return the counts of rows that were counted once."""
    return Counter(range(rows))


def counted(
    spout: Any,
    bolt: Any = None,
    *,
    count: Callable[[Told], Any] = Tally,
    config: Config = FAST,
    faults: Iterable[Fault] = (),
    limit_secs: float = 3600.0,
) -> Counter[Any]:
    """Run `numbers` > `p` > `count`, and return what was counted. Without a bolt, `numbers` > `count`."""
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", spout)
    if bolt is not None:
        builder.set_bolt("p", bolt).shuffle_grouping("numbers")
    builder.set_bolt("count", partial(count, told)).shuffle_grouping("numbers" if bolt is None else "p")
    run_topology(builder.build(), config, faults=faults, limit_secs=limit_secs)
    return told.counts()
