"""Keys by slot: a key group belongs to the task that gets its tuples from a fields grouping."""

from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernel import Choice, Mailbox, Outlet, key_group
from engine.state import StatePlace


def places(tasks: int, key_groups: int) -> list[StatePlace]:
    return [StatePlace("count", index, tasks, True, key_groups) for index in range(tasks)]


@pytest.mark.guarantee("CP-9")
@given(key_groups=st.integers(1, 1000), data=st.data())
def test_every_key_group_belongs_to_one_task(key_groups: int, data: st.DataObject) -> None:
    tasks = data.draw(st.integers(1, key_groups))
    of_tasks = places(tasks, key_groups)
    assert [group for place in of_tasks for group in place.slots] == list(range(key_groups))
    assert all(group * tasks // key_groups == place.task_index for place in of_tasks for group in place.slots)
    assert all(place.slots for place in of_tasks)


@pytest.mark.guarantee("CP-9")
@given(
    values=st.tuples(
        st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.tuples(st.text())), st.text()
    ),
    positions=st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
    tasks=st.integers(1, 16),
    key_groups=st.integers(16, 300),
)
def test_a_key_belongs_to_the_task_that_the_fields_grouping_chooses(
    values: tuple[Any, ...], positions: tuple[int, ...], tasks: int, key_groups: int
) -> None:
    outlet = Outlet(Choice.BY_FIELDS, [(task, Mailbox()) for task in range(tasks)], positions=positions, key_groups=key_groups)
    [chosen] = outlet.choose(values)
    grouped_by = tuple(values[position] for position in positions)
    owners = [place.task_index for place in places(tasks, key_groups) if place.slot_of(grouped_by) in place.slots]
    assert owners == [chosen]
    if len(grouped_by) == 1:
        assert places(tasks, key_groups)[0].slot_of(grouped_by[0]) == key_group(grouped_by[0], key_groups)
        assert chosen in [place.task_index for place in places(tasks, key_groups) if place.slot_of(grouped_by[0]) in place.slots]


def test_without_a_fields_grouping_a_task_has_one_slot() -> None:
    for index in range(5):
        place = StatePlace("count", index, 5, False, 128)
        assert place.slots == range(index, index + 1)
        assert place.slot_of(object()) == index


def test_a_key_without_a_stable_hash_has_no_slot() -> None:
    with pytest.raises(TypeError):
        StatePlace("count", 0, 1, True, 128).slot_of({"a": 1})


def test_a_key_of_one_named_field_is_in_the_group_of_its_value() -> None:
    One = namedtuple("One", "word")
    place = StatePlace("count", 0, 1, True, 128)
    assert place.slot_of(One("a")) == place.slot_of("a") == place.slot_of(("a",))


def test_the_text_of_a_place_names_the_task() -> None:
    assert str(StatePlace("count", 3, 5, True, 128)) == "'count' (task index 3)"
