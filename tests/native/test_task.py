"""Outlets against plain models of the groupings; the attributes of an OutStream and a BoltBacklog."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.queues import Mailbox
from _native.task import BoltBacklog, Outlet, OutStream
from _native.tuples import make_tuple
from engine.kernel.codes import Choice
from tests.model.routing_model import PartialKeyModel, by_fields, candidates
from tests.native.stage import source

KEYS = st.one_of(st.integers(), st.text(max_size=5), st.floats(allow_nan=False), st.none(), st.booleans(), st.binary(max_size=4))
TASKS = st.integers(1, 9)


def targets(tasks: int, first: int = 21) -> list[tuple[int, Mailbox]]:
    return [(task, Mailbox(1000)) for task in range(first, first + tasks)]


@pytest.mark.guarantee("GRP-1")
@given(tasks=TASKS, start=st.integers(0, 8), emits=st.integers(0, 40))
def test_shuffle_is_round_robin_from_its_start(tasks: int, start: int, emits: int) -> None:
    start %= tasks
    outlet = Outlet(Choice.SHUFFLE, targets(tasks), start=start)
    assert [outlet.choose(("x",)) for _ in range(emits)] == [[21 + (start + turn) % tasks] for turn in range(emits)]


@pytest.mark.guarantee("GRP-1", "GRP-2")
@given(tasks=TASKS, groups=st.integers(1, 300), rows=st.lists(st.tuples(KEYS, KEYS, KEYS), max_size=20), data=st.data())
def test_fields_follow_the_key_groups(tasks: int, groups: int, rows: list[tuple[object, ...]], data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True))
    outlet = Outlet(Choice.BY_FIELDS, targets(tasks), positions=positions, key_groups=groups)
    for values in rows:
        assert outlet.choose(values) == [21 + by_fields(values, positions, groups, tasks)]


@pytest.mark.guarantee("GRP-2")
@given(tasks=TASKS)
def test_equal_values_go_to_the_same_task(tasks: int) -> None:
    outlet = Outlet(Choice.BY_FIELDS, targets(tasks), positions=[0])
    assert outlet.choose((1,)) == outlet.choose((1.0,)) == outlet.choose((True,))
    assert outlet.choose(((1, "a"),)) == outlet.choose(([1.0, "a"],))


@pytest.mark.guarantee("GRP-2")
def test_keys_spread_over_tasks_and_their_groups_stay_together_when_tasks_are_added() -> None:
    few, many = (Outlet(Choice.BY_FIELDS, targets(tasks, 0), positions=[0]) for tasks in (4, 8))
    spread = Counter(few.choose((f"key-{number}",))[0] for number in range(4000))
    assert sorted(spread) == [0, 1, 2, 3]
    assert max(spread.values()) < 1.3 * min(spread.values())
    for number in range(200):
        assert many.choose((f"key-{number}",))[0] // 2 == few.choose((f"key-{number}",))[0]


@pytest.mark.guarantee("GRP-1")
@given(tasks=TASKS, keys=st.lists(st.sampled_from("abcdefgh"), max_size=200))
def test_partial_key_chooses_the_less_used_candidate(tasks: int, keys: list[str]) -> None:
    outlet, model = Outlet(Choice.PARTIAL_KEY, targets(tasks, 0), positions=[0]), PartialKeyModel(tasks)
    for key in keys:
        [task] = outlet.choose((key,))
        assert task == model.choose(key)
        assert task in candidates(key, tasks)


@pytest.mark.guarantee("GRP-1")
def test_partial_key_splits_a_hot_key_in_halves() -> None:
    key = next(key for key in "abcdefgh" if len(set(candidates(key, 4))) == 2)
    outlet = Outlet(Choice.PARTIAL_KEY, targets(4, 0), positions=[0])
    used = Counter(outlet.choose((key,))[0] for _ in range(1001))
    assert set(used) == set(candidates(key, 4))
    assert sorted(used.values()) == [500, 501]


@pytest.mark.guarantee("GRP-1")
@given(waiting=st.lists(st.integers(0, 4), min_size=1, max_size=6), emits=st.integers(0, 30))
def test_load_aware_chooses_a_task_with_the_shortest_queue(waiting: list[int], emits: int) -> None:
    where = targets(len(waiting), 0)
    for (_, box), count in zip(where, waiting, strict=True):
        for _ in range(count):
            box.post(make_tuple(("x",), source()))
    outlet = Outlet(Choice.LEAST_LOADED, where)
    for _ in range(emits):
        least = min(len(box) for _, box in where)
        [task] = outlet.choose(("x",))
        assert len(where[task][1]) == least
        where[task][1].post(make_tuple(("x",), source()))
    if emits >= sum(max(waiting) - count for count in waiting):
        assert max(len(box) for _, box in where) - min(len(box) for _, box in where) <= 1


@pytest.mark.guarantee("GRP-1")
@given(waiting=st.lists(st.integers(0, 1), min_size=1, max_size=6), start=st.integers(0, 5))
def test_load_aware_is_round_robin_among_equals(waiting: list[int], start: int) -> None:
    where = targets(len(waiting), 0)
    for (_, box), count in zip(where, waiting, strict=True):
        for _ in range(count):
            box.post(make_tuple(("x",), source()))
    outlet = Outlet(Choice.LEAST_LOADED, where, start=start % len(waiting))
    least = [task for task, box in where if len(box) == min(waiting)]
    turns = [outlet.choose(("x",))[0] for _ in range(3 * len(least))]
    assert sorted(turns[: len(least)]) == least
    assert turns == turns[: len(least)] * 3


@pytest.mark.guarantee("GRP-1")
def test_all_chooses_every_task_global_the_lowest_and_direct_none() -> None:
    assert Outlet(Choice.TO_ALL, targets(3)).choose(("x",)) == [21, 22, 23]
    assert Outlet(Choice.TO_FIRST, targets(3)).choose(("x",)) == [21]
    assert Outlet(Choice.DIRECT, targets(3)).choose(("x",)) == []


@pytest.mark.guarantee("GRP-1")
def test_custom_uses_the_tasks_of_the_chooser_in_their_order() -> None:
    outlet = Outlet(Choice.CUSTOM, targets(3), chooser=lambda values: values[0])
    assert outlet.choose(([23, 21],)) == [23, 21]
    assert outlet.choose(((),)) == []
    with pytest.raises(KeyError):
        outlet.choose(([24],))


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize("choice", [Choice.BY_FIELDS, Choice.PARTIAL_KEY])
def test_a_value_without_a_stable_hash_cannot_be_a_key(choice: Choice) -> None:
    outlet = Outlet(choice, targets(2), positions=[1], names=["word"])
    assert outlet.names == ("word",)
    with pytest.raises(TypeError):
        outlet.choose((1, {"a": 1}))


def test_an_outlet_knows_its_targets() -> None:
    outlet = Outlet(Choice.SHUFFLE, targets(2), stops=False)
    assert (outlet.task_ids, outlet.tasks, outlet.picks_one, outlet.stops, outlet.choice) == ([21, 22], 2, True, False, Choice.SHUFFLE)
    assert not Outlet(Choice.TO_ALL, targets(2)).picks_one
    with pytest.raises(TypeError, match="the target of task 5 must be a Mailbox, not 'box'"):
        Outlet(Choice.SHUFFLE, [(5, "box")])  # type: ignore[list-item]
    stream = OutStream(source(), [outlet], direct=True)
    assert (stream.outlets, stream.direct) == ([outlet], True)
    assert BoltBacklog().bolts_behind == 0
