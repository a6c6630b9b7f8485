"""Tuples of a class made in C are like those of its constructor."""

import gc
import sys
import weakref
from typing import Any, NamedTuple

import pytest

from engine.kernel import as_class, named_tuples
from engine.streams import Keyed, Revised


class Pair(NamedTuple):
    first: Any
    second: Any = 0


def test_they_equal_those_of_the_constructor() -> None:
    made = named_tuples(Pair, ["a", "b"], [1, 2])
    assert made == [Pair("a", 1), Pair("b", 2)]
    assert {type(each) for each in made} == {Pair}
    assert made[0].second == 1
    assert as_class(Pair, [("a", 1), Pair("b", 2)]) == made
    assert as_class(Pair, []) == named_tuples(Pair, [], []) == []
    (revised,) = named_tuples(Revised, named_tuples(Keyed, ["k"], [3]), [2], ["early"], [()])
    assert revised == Revised(Keyed("k", 3), 2, "early")
    assert revised.value.key == "k"


def test_they_own_their_values() -> None:
    value = object()
    before = sys.getrefcount(value)
    made = named_tuples(Pair, [value], [value]) + as_class(Pair, [(value, 1)])
    assert sys.getrefcount(value) == before + 3
    del made
    assert sys.getrefcount(value) == before


def test_the_garbage_collector_finds_their_cycles() -> None:
    class Node:
        pass

    node = Node()
    node.pair = named_tuples(Pair, [node], [1])  # type: ignore[attr-defined]
    gone = []
    weakref.finalize(node, gone.append, 1)
    del node
    gc.collect()
    assert gone == [1]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="a column has 1 values, and the first one 2"):
        named_tuples(Pair, [1, 2], [1])
    with pytest.raises(TypeError, match="list is no class of tuples"):
        named_tuples(list, [1])
    with pytest.raises(TypeError):
        as_class(Pair, [[1, 2]])  # type: ignore[list-item]
