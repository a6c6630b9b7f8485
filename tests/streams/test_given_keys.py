"""Keys of windows in the type of their rows, of keepers alone."""

import contextlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from engine.streams.aggregates import Count, Sum
from engine.streams.windows import Updates, open_keeper, session, sliding, tumbling
from tests.streams.memory_state import MemoryState, StoredState

pytestmark = [pytest.mark.guarantee("WI-1"), pytest.mark.guarantee("WI-4")]
MICRO = timedelta(microseconds=1)
SPECS = [tumbling(10 * MICRO), sliding(10 * MICRO, every=5 * MICRO), session(gap=10 * MICRO)]
TWICE = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))


class Pair(NamedTuple):
    name: str
    number: Any


class Level(IntEnum):
    LOW = 1


SHOWN = [
    (Pair("eu", 2.0), "('eu', 2.0)"),
    ((Level.LOW, True, Pair("a", Decimal("2.50"))), "(1, True, ('a', Decimal('2.50')))"),
    (Level.LOW, "1"),
    (-0.0, "-0.0"),
    ("plain", "'plain'"),
]


def results_around_a_restart(state: Any, spec: Any, key: Any) -> list[list[Any]]:
    """Return the early results before a restart, those behind it, and the last ones of a key."""
    kept, updates = state(), Updates(20, early=True)
    keeper = open_keeper(kept, spec, Count(), updates=updates)
    keeper.add_rows([key], [5], [None])
    first = [one for part in keeper.updates() for one in part]
    keeper = open_keeper(state(kept.snapshot()), spec, Count(), updates=updates)
    keeper.add_rows([key], [6], [None])
    second = [one for part in keeper.updates() for one in part]
    return [first, second, [one for part in keeper.close(20) for one in part]]


@pytest.mark.parametrize("state", [MemoryState, StoredState])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("key", "shown"), SHOWN)
def test_all_results_of_a_window_have_its_key_in_one_type_also_after_a_restart(state: Any, spec: Any, key: Any, shown: str) -> None:
    found = results_around_a_restart(state, spec, key)
    assert {repr(one.value.key) for each in found for one in each} == {shown}
    assert [{one.revision for one in each} for each in found] == [{0}, {1}, {2}]


@pytest.mark.parametrize("spec", SPECS)
def test_revisions_of_an_hour_that_comes_twice_go_on_after_a_restart(spec: Any) -> None:
    found = results_around_a_restart(StoredState, spec, TWICE)
    assert {one.value.key.utcoffset() for each in found for one in each} == {TWICE.utcoffset()}
    assert [{one.revision for one in each} for each in found] == [{0}, {1}, {2}]


@pytest.mark.parametrize(("keys", "shown"), [([1, True, 1.0], "1"), ([1.5, Decimal("1.5")], "1.5"), ([True, 1], "True")])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_first_row_of_a_key_gives_its_type(keys: list[Any], shown: str, at_once: bool) -> None:
    for spec in (SPECS[0], SPECS[2]):
        keeper = open_keeper(StoredState(), spec, Count())
        for burst in [keys] if at_once else [[key] for key in keys]:
            keeper.add_rows(burst, [5] * len(burst), [None] * len(burst))
        assert [repr(one.key) for part in keeper.close(20) for one in part] == [shown]


def test_the_first_pane_of_a_window_with_a_key_gives_its_type() -> None:
    keeper = open_keeper(StoredState(), SPECS[1], Count(), updates=Updates(0, early=True))
    keeper.add_rows([1], [1], [None])
    results = [one for part in keeper.updates() for one in part]
    keeper.add_rows([True], [6], [None])
    for part in [*keeper.updates(), *keeper.close(30)]:
        results += part
    assert {(one.value.start_us, repr(one.value.key)) for one in results} == {(-5, "1"), (0, "1"), (5, "True")}


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_of_a_key_stays_when_its_windows_are_closed(spec: Any) -> None:
    state = StoredState()
    keeper = open_keeper(state, spec, Count())
    keeper.add_rows([True, 2.0, datetime(2026, 1, 1, tzinfo=UTC)], [5, 6, 7], [None] * 3)
    assert any(str(name).startswith("keys ") for name in state.namespaces())
    for _ in keeper.close(100):
        pass
    assert state.namespaces() == []


def test_failed_rows_open_no_sessions() -> None:
    keeper = open_keeper(MemoryState(), SPECS[2], Sum(lambda row: 1 // row))
    for rows in ([1, 0], [1, 1]):
        with contextlib.suppress(ZeroDivisionError):
            keeper.add_rows(["a", "b"], [0, 0], rows)
    assert keeper.open_windows == 2
