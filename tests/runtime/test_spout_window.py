"""`max_spout_pending="auto"` as a pure object, against pipelines whose best window is known (FC-8)."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.spout_window import CHANCE_FAILURES, FIRST_WINDOW, MAX_WINDOW, SpoutWindow
from tests.flow.pipelines import Cpu, Pool, best_of

pytestmark = pytest.mark.guarantee("FC-8")

PIPELINES: dict[str, Cpu | Pool] = {
    "turns of 1 ms": Cpu(1e-3),
    "turns of 0.1 ms": Cpu(1e-4),
    "turns of 10 µs": Cpu(1e-5),
    "12 workers": Pool(),
    "1 worker": Pool(lambda now: 1),
    "40 workers": Pool(lambda now: 40),
}


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", PIPELINES)
def test_the_window_reaches_nearly_the_best_rate_at_no_more_than_twice_its_latency(name: str, noise: float) -> None:
    pipeline = PIPELINES[name]
    best = best_of(pipeline, 2)
    pipeline.noise = noise
    for seed in range(2):
        seen = pipeline.run(SpoutWindow(), 30, 10, seed)
        assert seen.rate >= 0.95 * best.rate, seed
        assert seen.latency <= 2 * best.latency, seed


def test_the_window_begins_small_and_doubles_while_the_rate_grows() -> None:
    windows = Pool(lambda now: 1000, noise=0.1).run(SpoutWindow(), 3, 0).windows
    steps = [window for window, before in zip(windows[1:], windows, strict=False) if window > before]
    assert windows[0] == FIRST_WINDOW
    assert max(windows) >= 1024
    assert steps[:8] == [FIRST_WINDOW * 2**power for power in range(1, 9)]


@pytest.mark.deep
def test_a_poll_with_many_emits_does_not_hide_a_gain() -> None:
    """A poll emits a thousand trees for 400 workers: 8 is no better than 4, but 400 is."""
    pipeline = Pool(lambda now: 400, poll=1000)
    least, best = pipeline.run(4, 5, 1), pipeline.run(1024, 5, 1)
    assert least.rate < 0.85 * best.rate
    assert pipeline.run(SpoutWindow(), 15, 5).rate >= 0.95 * best.rate


@pytest.mark.parametrize(("before", "after"), [pytest.param(12, 100, marks=pytest.mark.deep), (100, 12), (20, 1)])
def test_the_window_follows_a_pool_that_grows_or_shrinks(before: int, after: int) -> None:
    pipeline = Pool(lambda now: before if now < 10 else after, noise=0.1)
    best = best_of(Pool(lambda now: after), 2)
    seen = pipeline.run(SpoutWindow(), 60, 40)
    assert seen.rate >= 0.95 * best.rate
    assert seen.latency <= 2 * best.latency


def test_a_machine_that_is_slow_for_a_while_does_not_change_the_window() -> None:
    pipeline = Cpu(1e-4, noise=0.1, slower=lambda now: 3.0 if now % 16 >= 12 else 1.0)
    steady, shaken = Cpu(1e-4, noise=0.1).run(SpoutWindow(), 40, 10), pipeline.run(SpoutWindow(), 40, 10)
    assert max(shaken.windows[len(shaken.windows) // 2 :]) <= 8 * max(steady.windows[len(steady.windows) // 2 :])


def test_short_pauses_of_the_source_do_not_limit_the_window() -> None:
    window, acked = SpoutWindow(), 0
    for step in range(3000):
        acked += window.max_pending
        window.after_burst(0, step * 0.005, acked, 0, window.max_pending, limited=True)
        window.after_burst(0, step * 0.005, acked, 0, 0, limited=False)
        window.after_burst(0, step * 0.005 + 0.0005, acked, 0, window.max_pending, limited=True)
    assert window.max_pending >= 1024


def test_after_the_best_window_is_found_trials_are_rare() -> None:
    for seed in range(2):
        windows = Pool(noise=0.1).run(SpoutWindow(), 60, 0, seed).windows
        found = windows[len(windows) // 2 :]
        assert sum(window != before for window, before in zip(found[1:], found, strict=False)) < 200


@pytest.mark.parametrize("kept", [(False,), (None,), (True, False, False, False)], ids=["empty", "slow", "mostly empty"])
def test_a_slow_source_does_not_change_the_window(kept: tuple[bool | None, ...]) -> None:
    window = SpoutWindow()
    for step in range(40_000):
        assert window.after_burst(0, step / 1000, step * 3, 0, 2, kept[step % len(kept)]) == FIRST_WINDOW


def test_a_trial_that_is_not_filled_ends() -> None:
    """The mailboxes are full before twice the window is, so the spout never reaches it."""
    window, acked = SpoutWindow(), 0
    shown = set()
    for step in range(20_000):
        acked += 4
        limited = window.max_pending <= FIRST_WINDOW
        shown.add(window.after_burst(0, step / 1000, acked, 0, min(window.max_pending, FIRST_WINDOW), limited=limited))
    assert shown <= {FIRST_WINDOW, FIRST_WINDOW * 2, FIRST_WINDOW // 2, 1}
    assert window.max_pending <= FIRST_WINDOW * 2


def test_the_window_shrinks_at_once_if_more_trees_fail_than_are_acked() -> None:
    window, now, acked, failed = SpoutWindow(), 0.0, 0, CHANCE_FAILURES
    window.after_burst(0, now, acked, failed, 4, limited=True)
    assert window.state != "BUSY"

    def turns(number: int, *, fail: bool) -> None:
        """Simulate an unlimited pool: each window of trees is acked after 5 ms."""
        nonlocal now, acked, failed
        for _ in range(number):
            now, size = now + 0.005, window.max_pending
            acked, failed = (acked, failed + size) if fail else (acked + size, failed)
            window.after_burst(0, now, acked, failed, size, limited=True)

    turns(1000, fail=False)
    assert window.max_pending >= 1024
    turns(12, fail=True)
    assert (window.state, window.max_pending) == ("BUSY", 1)
    turns(2000, fail=False)
    assert window.state in ("NORMAL", "SLOW")
    assert window.max_pending >= 1024


def test_with_acks_of_a_second_a_round_is_one_window_and_a_pause_four_rounds() -> None:
    """With one worker the first trial is lost, and half the window is tried after a pause."""
    window, shown = SpoutWindow(), []
    for second in range(1, 200):
        shown.append(window.after_burst(0, float(second), second, 0, window.max_pending, limited=True))
    stretches = [(size, len(list(same))) for size, same in groupby(shown)]
    assert [size for size, _ in stretches[:6]] == [4, 8, 4, 8, 4, 2]
    first, in_trial, pause = (stretches[place][1] for place in (0, 2, 4))
    assert first < 2 * FIRST_WINDOW
    assert pause >= in_trial + 4 * FIRST_WINDOW


def test_the_window_stays_busy_until_more_trees_are_acked_than_fail() -> None:
    window, now, acked, failed = SpoutWindow(), 0.0, 0, 0

    def turns(fails: int, acks: int) -> set[str]:
        nonlocal now, acked, failed
        states: set[str] = set()
        for _ in range(100):
            now, failed = now + 0.01, failed + fails
            window.after_burst(0, now, acked, failed, 1, limited=True)
            now, acked = now + 0.01, acked + acks
            window.after_burst(0, now, acked, failed, 1, limited=True)
            states.add(window.state)
        return states

    turns(CHANCE_FAILURES + 1, 0)
    assert turns(2, 1) == {"BUSY"}
    assert window.max_pending == 1
    turns(1, 3)
    assert "BUSY" not in turns(1, 3)


def test_failures_in_proportion_to_the_window_do_not_shrink_it() -> None:
    window = SpoutWindow()
    acked = failed = 0
    for step in range(1000):
        acked += window.max_pending - window.max_pending // 4
        failed += window.max_pending // 4
        window.after_burst(0, step * 0.005, acked, failed, window.max_pending, limited=True)
        assert window.state != "BUSY"
    assert window.max_pending >= 1024


def test_the_tasks_of_a_spout_do_not_drive_each_others_windows_up() -> None:
    """Three tasks share a busy loop. Each alone would gain by a larger window."""
    window, now, acked = SpoutWindow(3), 0.0, [0, 0, 0]
    sizes = [window.max_pending] * 3
    largest = 0
    while now < 60:
        now += 1e-4 + sum(sizes) * 6e-6
        for task in range(3):
            acked[task] += sizes[task]
            sizes[task] = window.after_burst(task, now, acked[task], 0, sizes[task], limited=True)
        if now > 20:
            largest = max(largest, *sizes)
    assert 16 <= largest <= 1024


BURSTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.floats(0, 3) | st.just(0.0),
        st.integers(0, 5000) | st.just(0),
        st.integers(0, 5000) | st.just(0),
        st.integers(0, 10**6),
        st.sampled_from([True, True, False, None]),
    ),
    max_size=300,
)


@given(BURSTS)
def test_the_window_stays_within_its_bounds_for_random_events(bursts: list[tuple[int, float, int, int, int, bool | None]]) -> None:
    window, now, acked, failed = SpoutWindow(2), 0.0, [0, 0], [0, 0]
    for task, secs, acks, fails, open_trees, limited in bursts:
        now, acked[task], failed[task] = now + secs, acked[task] + acks, failed[task] + fails
        size = window.after_burst(task, now, acked[task], failed[task], open_trees, limited)
        assert size == window.max_pending
        assert 1 <= size <= MAX_WINDOW
        assert window.state in ("NORMAL", "SLOW", "BUSY")


def test_the_window_does_not_exceed_its_maximum() -> None:
    window, acked = SpoutWindow(), 0
    for step in range(4000):
        acked += window.max_pending
        window.after_burst(0, step * 0.02, acked, 0, window.max_pending, limited=True)
    assert window.max_pending in (MAX_WINDOW, MAX_WINDOW // 2)


def test_the_pause_doubles_with_each_lost_trial() -> None:
    window, pauses = SpoutWindow(), []
    for _ in range(9):
        window._reverse(0.0)
        pauses.append(window._pause_until)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 12.8]


@pytest.mark.guarantee("FC-8")
@pytest.mark.parametrize(("per_burst", "is_tried"), [(10, False), (30, True), (3, True)])
def test_another_rate_ends_the_pause_between_two_trials(per_burst: int, is_tried: bool) -> None:
    """A changed ack rate ends a long pause, and begins a trial at once."""
    window, now, acked, shown, changed = SpoutWindow(), 0.0, 0, 0, 0.0

    def turn(acks: int) -> None:
        nonlocal now, acked, shown, changed
        now, acked = now + 0.005, acked + acks
        if window.after_burst(0, now, acked, 0, window.max_pending, limited=True) != shown:
            changed, shown = now, window.max_pending

    while now < 60 or not 2 < now - changed < 2.1:  # in the middle of a long pause
        turn(10)
        assert now < 200
    began = now
    while now < began + 1:
        turn(per_burst)
    assert (changed > began) == is_tried
