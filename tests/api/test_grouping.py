"""Groupings are plain values, and each emitting task has its own custom grouping."""

import dataclasses

import pytest

from engine.api import All, Custom, Direct, Fields, FieldsGrouping, Global, LoadAware, LocalOrShuffle, NoneGrouping, PartialKey, Shuffle
from engine.topology.declarer import BoltDeclarer


class EvenTasks:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def prepare(self, context, stream, targets) -> None:
        self.targets = targets

    def choose_tasks(self, source_task, values):
        self.seen.append(values)
        return [task for task in self.targets if task % 2 == 0]


@pytest.mark.guarantee("GRP-1")
def test_the_declarer_has_all_groupings() -> None:
    subscriptions = []
    declarer = BoltDeclarer("sink", subscriptions)
    chained = (
        declarer.shuffle_grouping("a")
        .fields_grouping("b", "x", "y", stream="late")
        .all_grouping("c")
        .global_grouping("d")
        .none_grouping("e")
        .direct_grouping("f", "direct")
        .local_or_shuffle_grouping("g")
        .partial_key_grouping("h", Fields("x"))
        .load_aware_grouping("i")
        .custom_grouping("j", EvenTasks)
    )
    assert chained is declarer
    assert [(each.source, each.stream, each.grouping) for each in subscriptions] == [
        ("a", "default", Shuffle()),
        ("b", "late", FieldsGrouping(("x", "y"))),
        ("c", "default", All()),
        ("d", "default", Global()),
        ("e", "default", NoneGrouping()),
        ("f", "direct", Direct()),
        ("g", "default", LocalOrShuffle()),
        ("h", "default", PartialKey(("x",))),
        ("i", "default", LoadAware()),
        ("j", "default", Custom(EvenTasks)),
    ]


@pytest.mark.parametrize("grouping", [Shuffle(), FieldsGrouping(("a",)), PartialKey(("a",)), Direct(), Custom(EvenTasks)])
def test_groupings_are_immutable_and_have_a_name(grouping) -> None:
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        grouping.names = ("b",)
    assert grouping.method.endswith("_grouping")
    assert grouping.label


@pytest.mark.parametrize("given", [EvenTasks, lambda: EvenTasks(), EvenTasks()])
@pytest.mark.guarantee("GRP-1")
def test_each_emitting_task_has_its_own_custom_grouping(given) -> None:
    custom = Custom(given)
    one, other = custom.create(), custom.create()
    one.prepare(None, "default", [1, 2, 3, 4])
    assert one.choose_tasks(9, ("a",)) == [2, 4]
    assert one.seen == [("a",)]
    assert other.seen == []
    assert one is not given


def test_a_custom_grouping_is_labelled_by_its_name() -> None:
    assert Custom(EvenTasks).label == "custom(EvenTasks)"
    assert Custom(EvenTasks()).label == "custom(EvenTasks)"
    assert Custom(lambda: EvenTasks()).label == "custom"
