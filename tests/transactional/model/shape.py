"""Shape of a random transactional topology, as plain data for the bolts and the interpreter."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from engine import Fields, TaskContext

KEYS: Final = 5
SPOUT: Final = "s"
STREAMS: Final = {"default": Fields("key", "item"), "side": Fields("key", "item"), "direct": Fields("key", "item", direct=True)}
Item: TypeAlias = tuple[int, str]
"""A key, and `partition:number` of a source's item or `component:number` of a bolt's own."""
SpoutKind: TypeAlias = Literal["whole", "partitioned", "opaque"]
BasicStyle: TypeAlias = Literal["returns", "yields", "collects", "waits", "waits and yields", "threads"]
Method: TypeAlias = Literal["prepare", "execute", "finish", "cleanup"]
BASIC_STYLES: Final[Sequence[BasicStyle]] = ("returns", "yields", "collects", "waits", "waits and yields", "threads")
GROUPINGS: Final = ("shuffle", "fields", "all", "global", "none", "local_or_shuffle", "partial_key", "load_aware", "custom")
MOST_COPIES: Final = 12


@dataclass(frozen=True)
class Input:
    """One subscription."""

    source: str
    stream: str
    grouping: str


@dataclass(frozen=True)
class BoltShape:
    """One bolt."""

    name: str
    tasks: int
    inputs: tuple[Input, ...]
    sends: int
    """Number of tuples that it makes of each input: 0, 1 or 2."""
    basic: BasicStyle | None
    """Style of a basic bolt; None for a batch bolt."""
    at_finish: bool = False
    """Whether it sends in finish_batch instead of execute."""
    ticks: bool = False
    """Whether each task sends one tuple for each batch, even for an empty one."""
    distinct: bool = False
    """Whether it sends one tuple for each key of a batch instead of one for each input."""
    awaits: frozenset[Method] = frozenset()
    """Methods that are async."""
    keeps: Literal["values", "files"] | None = None
    """Kind of store of a committer; None for other bolts."""
    marked: bool = False
    """Whether it is a committer by `set_committer` instead of by its class."""
    stubborn: bool = False
    """Whether it ends only some time after a cancellation."""

    @property
    def is_committer(self) -> bool:
        """Whether its finish_batch belongs to the commit phase."""
        return self.keeps is not None

    def copies(self, grouping: str, item: str) -> int:
        """Number of its tasks that get a tuple."""
        if grouping == "custom":
            return min(number_of(item) % 3, self.tasks)
        return self.tasks if grouping == "all" else 1


@dataclass(frozen=True)
class Shape:
    """A topology and its source."""

    kind: SpoutKind
    partitions: tuple[str, ...]
    size: int
    """Number of items in each partition, or in the whole source."""
    bolts: tuple[BoltShape, ...]
    least: int
    most: int
    """Most items of each partition in a batch."""
    takes_part: bool
    """Whether its emitters have a `commit` method."""
    late: frozenset[str] = field(init=False)
    """Bolts that finish in the commit phase (TX-5), computed from the bolts in order."""

    def __post_init__(self) -> None:
        late: set[str] = set()
        for bolt in self.bolts:
            if bolt.is_committer or any(each.source in late for each in bolt.inputs):
                late.add(bolt.name)
        object.__setattr__(self, "late", frozenset(late))

    @property
    def by_name(self) -> dict[str, BoltShape]:
        """Bolts by name."""
        return {bolt.name: bolt for bolt in self.bolts}

    @property
    def batch_tasks(self) -> set[tuple[str, int]]:
        """All tasks that call finish_batch once for each attempt."""
        return {(bolt.name, index) for bolt in self.bolts if bolt.basic is None for index in range(bolt.tasks)}

    def direct_targets(self, source: str) -> tuple[str, ...]:
        """Bolts to which a component sends on its direct stream."""
        return tuple(bolt.name for bolt in self.bolts if any((each.source, each.stream) == (source, "direct") for each in bolt.inputs))


def number_of(item: str) -> int:
    """Number in an item."""
    return int(item.split(":")[1])


def item_of(partition: str, number: int) -> Item:
    """Item of a partition, with its key."""
    return number % KEYS, f"{partition}:{number}"


def streams_of(item: str) -> tuple[str, ...]:
    """Streams on which a component sends an item: `default`, and for every third also `aside`."""
    return ("default", "side") if number_of(item) % 3 == 0 else ("default",)


def chosen_task(context: TaskContext, component: str, item: str) -> int:
    """Task to which an item is sent directly."""
    tasks = context.task_ids(component)
    return tasks[number_of(item) % len(tasks)]


class Neighbours:
    """A custom grouping: none, one or two neighbouring tasks."""

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Sequence[Any]) -> Sequence[int]:
        number = number_of(values[-1])
        return sorted({self.targets[(number + each) % len(self.targets)] for each in range(number % 3)})


# Random shapes


def draw_shape(draws: random.Random) -> Shape:
    """Draw up to five layers of one or two bolts, with at least one committer anywhere."""
    kind: SpoutKind = draws.choice(["whole", "partitioned", "opaque", "opaque"])
    partitions = ("w",) if kind == "whole" else tuple(f"p{number}" for number in range(draws.randint(1, 4)))
    bolts: list[BoltShape] = []
    depth = draws.randint(1, 5)
    copies = {SPOUT: 1}
    for level in range(depth):
        for index in range(draws.choice([1, 1, 2])):
            above = [SPOUT] if level == 0 else [SPOUT, *(bolt.name for bolt in bolts)]
            must_commit = level == depth - 1 and not any(bolt.is_committer for bolt in bolts)
            bolt = _drawn_bolt(draws, f"b{level}{index}", above, copies, must_commit=must_commit)
            bolts.append(bolt)
    least = draws.choice([0, 1, 5])
    return Shape(
        kind=kind,
        partitions=partitions,
        size=draws.choice([3, 12, 40]),
        bolts=tuple(bolts),
        least=least,
        most=least + draws.choice([1, 5, 20]),
        takes_part=draws.random() < 0.3,
    )


def _drawn_bolt(draws: random.Random, name: str, above: Sequence[str], copies: dict[str, int], *, must_commit: bool) -> BoltShape:
    keyed, tasks = draws.random() < 0.4, draws.randint(1, 3)
    sources = draws.sample(above, draws.randint(1, min(3, len(above))))
    inputs = tuple(each for source in sources for each in _drawn_inputs(draws, source, keyed=keyed))
    commits = must_commit or draws.random() < 0.35
    basic = None if commits or draws.random() < 0.5 else draws.choice(BASIC_STYLES)
    one_place = keyed or tasks == 1
    keeps: Any = draws.choice(["values", "values", "files"] if one_place else ["files"]) if commits else None
    sends = draws.choice([0, 1, 1, 1, 2])
    came = sum(copies[each.source] * _most_copies(each.grouping, tasks) for each in inputs)
    if came > MOST_COPIES:  # too many tuples, so one task gets each, from one source
        inputs = (Input(sources[0], "default", "fields" if keyed else "shuffle"),)
        came = copies[sources[0]]
    copies[name] = came * (1 if 2 * came > MOST_COPIES else max(sends, 1))
    is_batched = basic is None
    methods: list[Method] = ["prepare", "execute", "finish", "cleanup"]
    return BoltShape(
        name=name,
        tasks=tasks,
        inputs=inputs,
        sends=min(sends, 1) if 2 * came > MOST_COPIES else sends,
        basic=basic,
        at_finish=is_batched and draws.random() < 0.5,
        ticks=is_batched and draws.random() < 0.3,
        distinct=is_batched and one_place and draws.random() < 0.15,
        awaits=frozenset(method for method in methods if draws.random() < 0.5) if is_batched else frozenset(),
        keeps=keeps,
        marked=draws.random() < 0.5,
        stubborn=draws.random() < 0.4,
    )


def _drawn_inputs(draws: random.Random, source: str, *, keyed: bool) -> Iterator[Input]:
    streams = draws.choice([["default"], ["default"], ["default"], ["default", "side"], ["side"], ["direct"], ["default", "direct"]])
    if keyed:
        streams = [stream for stream in streams if stream != "direct"] or ["default"]
    for stream in streams:
        grouping = "direct" if stream == "direct" else "fields" if keyed else draws.choice(GROUPINGS)
        yield Input(source, stream, grouping)


def _most_copies(grouping: str, tasks: int) -> int:
    return {"all": tasks, "custom": min(2, tasks)}.get(grouping, 1)
