"""The cumulative ack (FC-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow import DonePrefix


@pytest.mark.guarantee("FC-6")
def test_after_1_3_4_the_prefix_is_1_and_after_2_it_is_4() -> None:
    prefix = DonePrefix()
    seen = []
    for number in (1, 3, 4, 2):
        prefix.mark_done(number, number, f"line {number}")
        seen.append((prefix.done, prefix.position))
    assert seen == [(1, "line 1"), (1, "line 1"), (1, "line 1"), (4, "line 4")]
    assert prefix.ranges_ahead == 0


@pytest.mark.guarantee("FC-6")
@given(st.lists(st.integers(1, 5), max_size=40), st.randoms(use_true_random=False))
def test_ranges_in_any_order_never_pass_a_gap(sizes: list[int], random: "object") -> None:
    ranges, first = [], 1
    for size in sizes:
        ranges.append((first, first + size - 1))
        first += size
    random.shuffle(ranges)  # type: ignore[attr-defined]
    prefix, done = DonePrefix(), set[int]()
    for start, end in ranges:
        grown = prefix.mark_done(start, end, end)
        done |= set(range(start, end + 1))
        wanted = next(number for number in range(first + 1) if number + 1 not in done)
        assert (prefix.done, prefix.position) == (wanted, wanted or None)
        assert grown == (start <= wanted)
    assert prefix.done == first - 1
