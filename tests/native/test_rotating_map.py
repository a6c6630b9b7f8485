"""RotatingMap against a list of entries with ages, and its promises one by one."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _native.tables import RotatingMap
from tests.model.rotating_map_model import RotatingMapModel

KEYS = st.integers(0, 7)
VALUES = st.text("abc", max_size=2)


class AgainstTheModel(RuleBasedStateMachine):
    """Both get the same calls. The callback puts `put_again` during a rotation."""

    @initialize(buckets=st.integers(2, 5))
    def begin(self, buckets: int) -> None:
        self.map: RotatingMap[int, str] = RotatingMap(buckets, self.on_expire)
        self.model = RotatingMapModel(buckets)
        self.expired: dict[int, str] = {}
        self.put_again: set[int] = set()

    def on_expire(self, key: int, value: str) -> None:
        assert key not in self.map
        assert self.map.get(key) is None
        self.expired[key] = value
        if key in self.put_again:
            self.map.put(key, value + "!")

    @rule(key=KEYS, value=VALUES)
    def put(self, key: int, value: str) -> None:
        self.map.put(key, value)
        self.model.put(key, value)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        assert self.map.remove(key) == self.model.remove(key)

    @rule(put_again=st.sets(KEYS))
    def rotate(self, put_again: set[int]) -> None:
        self.put_again, self.expired = put_again, {}
        dead = self.model.rotate()
        assert self.map.rotate() == self.expired == dead
        for key in put_again & dead.keys():
            self.model.put(key, dead[key] + "!")

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.model.entries.clear()

    @invariant()
    def they_hold_the_same(self) -> None:
        assert sorted(self.map.items()) == self.model.items()
        assert sorted(self.map) == [key for key, _ in self.model.items()]
        assert len(self.map) == len(self.model.entries)
        for key in range(8):
            assert self.map.get(key) == self.model.get(key)
            assert (key in self.map) == (self.model.get(key) is not None)


TestAgainstTheModel = pytest.mark.guarantee("RM-1", "RM-2")(AgainstTheModel.TestCase)


@pytest.mark.guarantee("RM-1")
@pytest.mark.parametrize("buckets", [1, 0, -3])
def test_fewer_than_two_buckets_are_refused(buckets: int) -> None:
    with pytest.raises(ValueError, match="must be at least 2"):
        RotatingMap(buckets)


@pytest.mark.guarantee("RM-1")
def test_put_refreshes_and_get_and_contains_do_not() -> None:
    ages: RotatingMap[str, int] = RotatingMap(2)
    ages.put("refreshed", 1)
    ages.put("read", 2)
    ages.rotate()

    ages.put("refreshed", 3)
    assert ages.get("read") == 2
    assert "read" in ages

    assert ages.rotate() == {"read": 2}
    assert list(ages.items()) == [("refreshed", 3)]


@pytest.mark.guarantee("RM-1")
def test_remove_returns_the_value_or_none_without_calling_expire() -> None:
    expired: list[object] = []
    ages: RotatingMap[str, int] = RotatingMap(2, lambda key, value: expired.append(key))
    ages.put("a", 1)
    ages.rotate()
    assert ages.remove("a") == 1
    assert ages.remove("a") is None
    assert ages.rotate() == {}
    assert expired == []


def test_get_distinguishes_a_stored_none_from_a_missing_key() -> None:
    ages: RotatingMap[str, None] = RotatingMap()
    ages.put("a", None)
    assert ages.get("a", "missing") is None
    assert ages.get("b", "missing") == "missing"
    assert ages.buckets == 3


@pytest.mark.guarantee("RM-2")
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_an_entry_expires_at_exactly_the_nth_rotation(buckets: int) -> None:
    ages: RotatingMap[str, int] = RotatingMap(buckets)
    ages.put("a", 1)
    assert [ages.rotate() for _ in range(buckets + 1)] == [{}] * (buckets - 1) + [{"a": 1}, {}]


@pytest.mark.guarantee("RM-2")
def test_after_an_exception_of_the_callback_the_rotation_is_complete() -> None:
    called: list[str] = []

    def refuse(key: str, value: int) -> None:
        called.append(key)
        if value:
            raise ValueError(f"refused {key}")

    ages: RotatingMap[str, int] = RotatingMap(2, refuse)
    for key, value in [("a", 0), ("b", 1), ("c", 0), ("d", 1)]:
        ages.put(key, value)
    ages.rotate()
    ages.put("young", 0)

    with pytest.raises(ValueError, match="refused b") as raised:
        ages.rotate()

    assert called == ["a", "b", "c", "d"]
    assert raised.value.__notes__ == ["expire raised for 1 more of the 4 entries that expired with this one"]
    assert list(ages) == ["young"]
    assert ages.rotate() == {"young": 0}


@pytest.mark.guarantee("RM-2")
def test_an_interrupt_in_the_callback_is_raised_at_once() -> None:
    called: list[str] = []

    def interrupt(key: str, value: int) -> None:
        called.append(key)
        raise KeyboardInterrupt

    ages: RotatingMap[str, int] = RotatingMap(2, interrupt)
    ages.put("a", 1)
    ages.put("b", 2)
    ages.rotate()
    with pytest.raises(KeyboardInterrupt):
        ages.rotate()
    assert called == ["a"]
    assert len(ages) == 0


def test_an_unhashable_key_changes_nothing() -> None:
    ages: RotatingMap[object, int] = RotatingMap()
    ages.put("a", 1)
    ages.rotate()
    with pytest.raises(TypeError, match="unhashable"):
        ages.put([], 2)
    assert list(ages.items()) == [("a", 1)]


def test_a_rotating_map_is_generic_at_run_time() -> None:
    ages = RotatingMap[str, int](buckets=4)
    assert isinstance(ages, RotatingMap)
    assert ages.buckets == 4


def ages_at_death(buckets: int, expiry: Fraction, puts: list[tuple[Fraction, bool]]) -> Iterator[Fraction]:
    """Put one key at each time, and rotate every expiry / (buckets - 1). `after` decides the order at the same instant."""
    ages: RotatingMap[int, Fraction] = RotatingMap(buckets)
    period = expiry / (buckets - 1)
    last = max(time for time, _ in puts) + 2 * expiry
    events: list[tuple[Fraction, int, int]] = [(period * turn, 1, -1) for turn in range(1, int(last / period) + 1)]
    events += [(time, 2 if after else 0, key) for key, (time, after) in enumerate(puts)]
    for time, _, key in sorted(events):
        if key >= 0:
            ages.put(key, time)
        else:
            yield from (time - born for born in ages.rotate().values())
    assert len(ages) == 0


@pytest.mark.guarantee("RM-3")
@given(
    buckets=st.integers(2, 6),
    expiry=st.fractions(Fraction(1, 10), 30),
    puts=st.lists(st.tuples(st.integers(0, 120).map(lambda n: Fraction(n, 40)), st.booleans()), min_size=1, max_size=8),
)
def test_the_age_of_an_expired_entry_is_within_bounds(buckets: int, expiry: Fraction, puts: list[tuple[Fraction, bool]]) -> None:
    in_periods = [(time * expiry / (buckets - 1), after) for time, after in puts]  # so that many meet a rotation exactly
    died = list(ages_at_death(buckets, expiry, in_periods))
    assert len(died) == len(puts)
    assert all(expiry <= age <= expiry * (1 + Fraction(1, buckets - 1)) for age in died)


@pytest.mark.guarantee("RM-3")
def test_both_bounds_of_the_age_are_reached() -> None:
    just_before, just_after = (Fraction(10), False), (Fraction(10), True)
    assert list(ages_at_death(3, Fraction(20), [just_before, just_after])) == [20, 30]
