"""`get_many`, `put_many` and `add_many` do for many keys in one call what `get` and `put` do for one."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from engine.errors import StateError
from engine.state import KeyValueState, StatePlace
from tests.state.slow_store import AnySlowStore
from tests.state.states import checkpoint, restarted, state_on
from tests.state.test_layered import own_and_foreign

pytestmark = pytest.mark.guarantee("CP-6")


class DictState(KeyValueState[Any, Any]):
    """A state of a user, with the defaults of the interface."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def get(self, key: Any, default: object = None) -> Any:
        return self.values.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def delete(self, key: Any) -> None:
        self.values.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        yield from self.values.items()

    def __contains__(self, key: object) -> bool:
        return key in self.values

    async def prepare_commit(self, txid: int) -> None: ...

    async def commit(self, txid: int) -> None: ...

    async def rollback(self) -> None: ...


@pytest.fixture(params=["layered", "default"])
def state(request: pytest.FixtureRequest, store: AnySlowStore) -> KeyValueState[Any, Any]:
    return state_on(store) if request.param == "layered" else DictState()


def test_many_keys_are_put_and_got_in_order(state: KeyValueState[Any, Any]) -> None:
    state.put_many({"a": 1, ("t", 1): [1]})
    state.put_many((key, key) for key in "bb")
    assert state.get_many(["b", "missing", ("t", 1), "a", "b"]) == ["b", None, [1], 1, "b"]
    assert state.get_many(iter(["missing"]), 0) == [0]
    assert state.get_many([]) == []


def test_each_key_adds_one(state: KeyValueState[Any, Any]) -> None:
    state.put("a", 10)
    state.add_many(["a", "b", "a", ("t", 1), None, 1, True])
    assert dict(state.items()) == {"a": 12, "b": 1, ("t", 1): 1, None: 1, 1: 2}


def test_a_mapping_adds_amounts(state: KeyValueState[Any, Any]) -> None:
    state.add_many(Counter("aab"))
    state.add_many({"a": 0.5, "b": -1, "c": Decimal("0.1"), "d": 2**70})
    state.add_many({"c": Decimal("0.2"), "d": 1})
    assert dict(state.items()) == {"a": 2.5, "b": 0, "c": Decimal("0.3"), "d": 2**70 + 1}


def test_other_values_add_as_in_python(state: KeyValueState[Any, Any]) -> None:
    state.put_many({"list": [1], "text": "a"})
    state.add_many({"list": [2], "text": "b"})
    assert state.get_many(["list", "text"]) == [[1, 2], "ab"]
    with pytest.raises(TypeError):
        state.add_many(["text"])


def test_a_deleted_key_has_zero_again(state: KeyValueState[Any, Any]) -> None:
    state.add_many(["a", "a"])
    state.delete("a")
    assert state.get_many(["a"], "gone") == ["gone"]
    state.add_many(["a"])
    assert state.get("a") == 1


@pytest.mark.parametrize("key", ["word", b"word"])
def test_a_single_text_is_not_a_collection_of_keys(state: KeyValueState[Any, Any], key: Any) -> None:
    with pytest.raises(TypeError, match=r"add_many\(\) takes a collection of keys, not the single key b?'word'"):
        state.add_many(key)
    with pytest.raises(TypeError, match=r"get_many\(\) takes a collection of keys"):
        state.get_many(key)


async def test_older_layers_are_read_and_kept(store: AnySlowStore) -> None:
    state = state_on(store)
    state.add_many(["a", "b", "b"])
    state.freeze(0)
    state.add_many(["b", "c"])
    assert state.get_many(["a", "b", "c"]) == [1, 3, 1]
    await state.rollback()
    assert state.get_many(["a", "b", "c"], 0) == [0, 0, 0]
    state.add_many({"a": 5})
    await checkpoint(state, 0)
    await state.fold()
    state = await restarted(store, 0)
    state.add_many(["a"])
    assert dict(state.items()) == {"a": 6}


@pytest.mark.guarantee("CP-9")
def test_keys_of_other_tasks_and_invalid_keys_are_refused(store: AnySlowStore) -> None:
    place = StatePlace("count", 1, 3, True, 8)
    own, foreign = own_and_foreign(place)
    state = state_on(store, place)
    for use in (lambda: state.add_many([own, foreign]), lambda: state.put_many({own: 1, foreign: 1})):
        with pytest.raises(StateError, match="which is not one of this task"):
            use()
    keys: list[Any] = [[1]]
    for use in (lambda: state.add_many(keys), lambda: state.put_many([([1], 1)]), lambda: state.get_many(keys)):
        with pytest.raises(StateError, match="cannot be a key"):
            use()
    with pytest.raises(StateError, match="the value of key"):
        state.put_many({own: object()})


@pytest.mark.guarantee("SV-2")
def test_a_put_mapping_with_mutable_values_keeps_what_was_put(store: AnySlowStore) -> None:
    state = state_on(store)
    value = [1]
    state.put_many({"a": value})
    value.append(2)
    state.get_many(["a"])[0].append(3)
    assert state.get("a") == [1]


@pytest.mark.guarantee("SV-2")
@pytest.mark.parametrize("prepares", [False, True])
def test_the_changes_of_a_call_that_raises_are_undone(store: AnySlowStore, prepares: bool) -> None:
    state = state_on(store)
    state.put_many({"a": 1, "b": 1, "c": [1]})
    if prepares:
        state.freeze(0)
    state.guard_call()
    state.add_many(["a", "a", "new"] * 200)
    state.put_many({"b": 7, "new": 8})
    state.add_many({"c": [2]})
    state.undo_call()
    assert dict(state.items()) == {"a": 1, "b": 1, "c": [1]}


def test_an_amount_whose_addition_changes_the_state(store: AnySlowStore) -> None:
    state = state_on(store)

    class Amount:
        def __radd__(self, number: int) -> int:
            state.delete("a")
            return number + 5

    state.put("a", 1)
    state.add_many({"a": Amount()})
    assert state.get("a") == 6
