"""Spouts with positions: what is stored, what is refused, and which rows may stand beside them (EO-1, EO-2, EO-7, EO-8)."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import Bolt, ComponentError, Config, Spout, SpoutExhausted, StateError, TopologyBuilder, TopologyError, Tuple, spout
from engine.errors import UsageError
from engine.testing import ACKER, Finished, KillTask, RaiseError, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told, counted, once, plain

# How often and how many


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("ackers", [1, 4])
@pytest.mark.parametrize("pending", [1, 7, "auto"])
def test_rows_are_counted_once_with_several_ackers_and_few_open_trees(pending: Any, ackers: int) -> None:
    config = FAST.replace(max_spout_pending=pending, acker_executors=ackers, state_checkpoint_interval_ms=50)
    faults = [KillTask("count", at_secs=0.3), KillTask("numbers", at_secs=0.6), KillTask(ACKER, at_secs=0.9)]
    assert counted(partial(Numbers, 60), config=config, faults=faults) == once(60)


# Hooks and positions that fail


class Odd(Numbers):
    """Has a method that does something else."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        super().__init__(40, pace_secs=0.1)
        for name, method in methods.items():
            setattr(self, name, method)


def raises(*_: object) -> Any:
    raise ValueError("no way")


def coroutine() -> Any:
    async def one() -> int:
        return 1

    COROUTINES.append(one())
    return COROUTINES[-1]


COROUTINES: list[Coroutine[Any, Any, int]] = []
"""Those that `coroutine` has returned."""


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (object, "spout 'numbers': position.. returned <object .*, which cannot be stored"),
        (coroutine, "spout 'numbers': position.. returned <coroutine .*, which cannot be stored"),
        (raises, "spout 'numbers': position.. raised ValueError: no way .*\nFix: It returns the position behind the last emitted row"),
    ],
)
@pytest.mark.guarantee("EO-2")
def test_a_position_that_cannot_be_taken_ends_the_run_with_the_spout(position: Any, text: str) -> None:
    with pytest.raises(ComponentError, match=text):
        counted(partial(Odd, position=position))
    for each in COROUTINES:
        each.close()  # or Python would warn that nobody has awaited it


@pytest.mark.guarantee("EO-1")
def test_a_seek_that_raises_at_the_start_ends_the_run_and_later_is_repeated() -> None:
    with pytest.raises(ComponentError, match=r"'numbers' .task 1.: died more than 5 times in 60 s before it was ready.*no way"):
        counted(partial(Odd, seek=raises))

    class RaisesTwice(Numbers):
        left = 2

        def seek(self, position: int | None) -> None:
            if position and RaisesTwice.left:
                RaisesTwice.left -= 1
                raises()
            super().seek(position)

    assert counted(partial(RaisesTwice, 40, pace_secs=0.1), faults=[KillTask("count", at_secs=2.5)]) == once(40)


@pytest.mark.guarantee("EO-1")
def test_a_committed_that_raises_is_an_error_of_a_call() -> None:
    assert counted(partial(Odd, committed=raises), faults=[KillTask("count", at_secs=2.5)]) == once(40)


@pytest.mark.guarantee("EO-1")
def test_seek_and_committed_may_be_coroutines() -> None:
    told: list[int] = []

    class Async(Numbers):
        async def seek(self, position: int | None) -> None:
            super().seek(position)

        async def committed(self, position: int) -> None:
            told.append(position)

    assert counted(partial(Async, 40, pace_secs=0.1), faults=[KillTask("numbers", at_secs=2.5)]) == once(40)
    assert told == sorted(told)
    assert told[-1] == 40


# Partitions and parallelism


class Partitions(Spout):
    """Four partitions of 30 rows, divided over the tasks, or all of them in each task."""

    output_fields = "n"
    partitioned = True

    def __init__(self, *, all_each: bool = False) -> None:
        self.all_each, self.due = all_each, 0.0

    def seek(self, position: Mapping[str, int] | None) -> None:
        tasks = len(self.context.task_ids(self.context.component_id))
        mine = [part for part in range(4) if self.all_each or part % tasks == self.context.task_index]
        self.next = {f"part {part}": (position or {}).get(f"part {part}", 30 * part) for part in mine}

    def position(self) -> dict[str, int]:
        return dict(self.next)

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        left = [name for name, number in self.next.items() if number < 30 * int(name[-1]) + 30]
        if not left:
            raise SpoutExhausted
        if now >= self.due:
            self.due = now + 0.02
            self.next[left[0]] += 1
            self.collector.emit((self.next[left[0]] - 1,))


def run_partly(url: str, spout: Any, tasks: int, secs: float | None = None) -> tuple[Counter[Any], Finished]:
    """Run with stored positions, to the end or for some time."""
    told, builder = Told(), TopologyBuilder("parts")
    builder.set_spout("numbers", spout, parallelism=tasks)
    builder.set_bolt("count", told.create, 2).fields_grouping("numbers", "n")
    finished = run_topology(builder.build(), Config(state_provider=url, state_checkpoint_interval_ms=100), until=secs)
    return told.counts(), finished


@pytest.mark.guarantee("EO-1", "EO-8")
def test_a_partitioned_source_continues_with_another_parallelism(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    for tasks, secs in ((2, 0.35), (4, 0.25), (1, 0.3)):
        counts, _ = run_partly(url, Partitions, tasks, secs)
        assert 0 < sum(counts.values()) < 120
    counts, _ = run_partly(url, Partitions, 3)
    assert counts == once(120)


@pytest.mark.guarantee("EO-2")
def test_a_partition_of_two_tasks_ends_the_run() -> None:
    with pytest.raises(ComponentError, match="spout 'numbers': two of its tasks report a position of partition 'part 0'"):
        run_partly("memory://", partial(Partitions, all_each=True), 2)


@pytest.mark.guarantee("EO-8")
def test_another_parallelism_without_partitions_is_refused(tmp_path: Path) -> None:
    url, numbers = f"sqlite:///{tmp_path}/state.db", partial(Numbers, 40, pace_secs=0.05)
    run_partly(url, numbers, 2, 0.5)
    with pytest.raises(StateError, match=r"'parts': spout 'numbers': its positions were stored by 2 tasks, and it now has 3"):
        run_partly(url, numbers, 3)
    with pytest.raises(StateError, match=r"its positions were stored by task, and it now has them by partition"):
        run_partly(url, Partitions, 2)
    counts, _ = run_partly(url, numbers, 2)
    assert counts == once(40) + once(40)


class FiltersAll(Bolt):
    """Emits nothing."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


@pytest.mark.guarantee("EO-2")
def test_positions_are_committed_although_no_row_reaches_a_state(tmp_path: Path) -> None:
    sought: list[int | None] = []

    class Notes(Numbers):
        def seek(self, position: int | None) -> None:
            sought.append(position)
            super().seek(position)

    for secs in (3, None):
        builder = TopologyBuilder("filtered", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
        builder.set_spout("numbers", partial(Notes, 40, pace_secs=0.1))
        builder.set_bolt("filters", FiltersAll).shuffle_grouping("numbers")
        builder.set_bolt("count", Told().create).shuffle_grouping("filters")
        run_topology(builder.build(), until=secs)
    assert sought[0] is None
    assert sought[1] is not None
    assert sought[1] >= 15


# Other sources beside, and the guarantee that is asked for


@pytest.mark.guarantee("EO-1", "EO-7")
def test_a_generator_beside_an_exact_source_is_at_least_once() -> None:
    told, builder = Told(), TopologyBuilder("beside")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_spout("plain", plain)
    builder.set_bolt("count", told.create).shuffle_grouping("numbers").shuffle_grouping("plain")
    faults = [RaiseError("count", at_call=7), RaiseError("count", at_call=60), KillTask("count", at_secs=1.5)]
    run_topology(builder.build(), FAST, faults=faults)

    counts = told.counts()
    assert Counter({row: count for row, count in counts.items() if row < 1000}) == once(40)
    assert {row for row in counts if row >= 1000} == set(range(1000, 1040))


def build(config: Config, *spouts: Any) -> Finished:
    builder = TopologyBuilder("asked", config)
    for index, each in enumerate(spouts):
        builder.set_spout(f"s{index}", each)
    declarer = builder.set_bolt("count", Told().create)
    for index in range(len(spouts)):
        declarer.shuffle_grouping(f"s{index}")
    return run_topology(builder.build())


@pytest.mark.guarantee("EO-7")
def test_a_topology_that_cannot_be_exact_is_refused_with_all_reasons() -> None:
    with pytest.raises(TopologyError) as refused:
        build(Config(processing_guarantee="exactly_once"), plain, partial(Numbers, 5), plain)
    text = str(refused.value)
    assert "s0" in text
    assert "s2" in text
    assert "s1" not in text
    assert text.count("needs a source that can rewind") == 2
    assert "state_provider='memory://': processing_guarantee='exactly_once' needs a store that survives the process" in text


@pytest.mark.guarantee("EO-7")
@pytest.mark.parametrize("wish", ["at_least_once", None])
def test_a_topology_without_that_wish_runs(wish: Any) -> None:
    assert build(Config(processing_guarantee=wish), plain, partial(Numbers, 5)).state == "complete"


@pytest.mark.guarantee("EO-7")
def test_an_exact_topology_runs(tmp_path: Path) -> None:
    config = Config(processing_guarantee="exactly_once", state_provider=f"sqlite:///{tmp_path}/state.db")
    assert build(config, partial(Numbers, 5)).state == "complete"


# @spout(positions=True)


def rows(after: int | None) -> Iterator[Any]:
    for number in range(after or 0, 40):
        yield number + 1, (number,)


def lists(after: int | None) -> Iterator[Any]:
    for first in range(after or 0, 40, 7):
        yield [(number + 1, (number,)) for number in range(first, min(first + 7, 40))]


async def async_rows(after: int | None) -> AsyncIterator[Any]:
    for each in rows(after):
        yield each


async def async_lists(after: int | None) -> AsyncIterator[Any]:
    for each in lists(after):
        yield each


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("function", [rows, lists, async_rows, async_lists])
def test_a_generator_with_positions_is_exact(function: Any) -> None:
    faults = [KillTask("count", at_call=each) for each in (3, 20)] + [KillTask("numbers", at_call={2, 4}), RaiseError("count", at_call=11)]
    source = spout("n", positions=True, burst=function in (lists, async_lists))(function)
    assert counted(source, config=FAST.replace(state_checkpoint_interval_ms=20), faults=faults) == once(40)


def test_wrong_generators_with_positions_are_told() -> None:
    def without_after() -> Iterator[Any]:
        yield 1, (1,)

    def without_position(after: int | None) -> Iterator[Any]:
        yield (1,)

    def unstorable(after: int | None) -> Iterator[Any]:
        yield object(), (1,)

    with pytest.raises(UsageError, match="has no parameter `after`"):
        spout("n", positions=True)(without_after)  # type: ignore[type-var]
    with pytest.raises(ComponentError, match=r"yielded \(1,\), which is not a pair of a position and a row\nFix: With positions=True"):
        counted(spout("n", positions=True)(without_position))
    with pytest.raises(ComponentError, match=r"spout 'numbers': position\(\) returned <object"):
        counted(spout("n", positions=True)(unstorable))
