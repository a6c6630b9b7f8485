"""Walks over the entries of a layer, for deltas and for the merge of committed layers (CP-7)."""

import pytest

from _native.state import LayerWalk

pytestmark = pytest.mark.guarantee("CP-7")


def test_a_walk_takes_each_entry_once_in_order() -> None:
    layer = {key: str(key) for key in range(10)}
    walk = LayerWalk(layer)

    parts = [walk.take(4) for _ in range(4)]

    assert [len(keys) for keys, _ in parts] == [4, 4, 2, 0]
    assert [entry for keys, values in parts for entry in zip(keys, values, strict=True)] == list(layer.items())


def test_a_walk_sees_values_that_are_replaced_before_it_reaches_them() -> None:
    layer = dict.fromkeys("abc", 0)
    walk = LayerWalk(layer)
    walk.take(1)

    layer["a"] = layer["c"] = 1

    assert walk.take(9) == (["b", "c"], [0, 1])


def test_moved_entries_win_over_those_of_the_older_layer() -> None:
    older, newer = {"a": 1, "b": 1}, {"b": 2, "c": 2, "d": 2}
    walk = LayerWalk(newer)

    walk.move_onto(older, 2)
    assert older == {"a": 1, "b": 2, "c": 2}
    walk.move_onto(older, 2)
    assert older == {"a": 1, "b": 2, "c": 2, "d": 2}


@pytest.mark.parametrize("goes_on", [lambda walk: walk.take(1), lambda walk: walk.move_onto({}, 1)], ids=["take", "move"])
def test_a_layer_that_gets_a_key_during_a_walk_is_refused(goes_on: object) -> None:
    layer = {"a": 1}
    walk = LayerWalk(layer)
    layer["b"] = 2

    with pytest.raises(RuntimeError, match="a layer of 1 keys has 2 keys during a walk"):
        goes_on(walk)  # type: ignore[operator]
