"""Virtual time jumps, never goes back, and keeps timers in order. A seed replays a run."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import Clock
from engine.testing.virtual_loop import EPOCH_SECS, LeftoverTaskWarning, VirtualTimeLoop, run_virtual
from tests.patience import PATIENCE_SECS
from tests.testing.virtual import loop_of_this_test, now

# Time jumps.


@pytest.mark.parametrize("secs", [1e-9, 0.1, 1.0, 86_400.5, 1e6, 1e9, 1e15])
def test_a_sleep_ends_at_its_virtual_time_without_waiting(secs: float) -> None:
    async def main() -> float:
        await asyncio.sleep(secs)
        return now()

    begun = time.monotonic()
    assert run_virtual(main) == secs
    assert time.monotonic() - begun < PATIENCE_SECS


@pytest.mark.parametrize("start", [0.0, 0.1, 1e6 + 0.1, 2.0**33 + 0.3])
def test_ten_thousand_short_sleeps_add_up_exactly_from_any_start(start: float) -> None:
    async def main() -> float:
        for _ in range(10_000):
            await asyncio.sleep(0.001)
        return now()

    assert run_virtual(main, start=start) == pytest.approx(start + 10.0, abs=0.02)


def test_a_timeout_is_virtual() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(31)
        return now()

    assert run_virtual(main) == 30.0


def test_wait_for_is_virtual() -> None:
    async def main() -> float:
        assert await asyncio.wait_for(asyncio.sleep(29, "done"), 30) == "done"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        return now()

    assert run_virtual(main) == 59.0


def test_the_wall_clock_follows_virtual_time_and_the_run_uses_both() -> None:
    async def main() -> None:
        clock = Clock.of(asyncio.get_running_loop())
        await asyncio.sleep(7)
        assert (clock.now(), clock.wall()) == (107.0, EPOCH_SECS + 107.0)

    run_virtual(main, start=100.0)


def test_time_stands_still_while_anything_is_ready() -> None:
    async def main() -> None:
        fired: list[int] = []
        asyncio.get_running_loop().call_later(1e-6, fired.append, 1)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert (now(), fired) == (0.0, [])

    run_virtual(main)


def test_with_step_secs_timers_fire_in_a_program_that_never_waits() -> None:
    async def main() -> int:
        turns = 0
        asyncio.get_running_loop().call_later(1.0, lambda: due.append(now()))
        due: list[float] = []
        while not due:
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert run_virtual(main, step_secs=0.01) == pytest.approx(100, abs=3)


# advance().


def test_advance_blocks_the_loop_and_due_timers_fire_in_order_in_the_next_turn() -> None:
    async def main() -> list[tuple[int, float]]:
        fired: list[tuple[int, float]] = []

        def note(due: int) -> None:
            fired.append((due, now()))

        for due in (3, 1, 2, 5):
            asyncio.get_running_loop().call_later(due, partial(note, due))
        loop_of_this_test().advance(3.5)
        assert fired == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return fired

    assert run_virtual(main) == [(1, 3.5), (2, 3.5), (3, 3.5)]


@pytest.mark.parametrize("secs", [-1e-9, math.inf, math.nan])
def test_advance_refuses_an_invalid_duration(secs: float) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="advance"):
            loop_of_this_test().advance(secs)

    run_virtual(main)


def test_a_timer_at_nan_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="NaN"):
            asyncio.get_running_loop().call_at(math.nan, print)

    run_virtual(main)


# Order.


def test_timers_with_the_same_time_fire_in_the_order_of_their_creation() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(100):
            loop.call_at(5.0, fired.append, number)
            loop.call_at(5.0 + number, lambda: None).cancel()
        await asyncio.sleep(6)
        return fired

    assert run_virtual(main) == list(range(100))


Delays = st.lists(st.floats(0, 1e7) | st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0]), max_size=30)


@given(delays=Delays, more=Delays, start=st.floats(0, 1e9))
def test_every_timer_fires_once_at_its_time_and_time_never_goes_back(delays: list[float], more: list[float], start: float) -> None:
    fired: list[tuple[float, int, float]] = []
    due: list[tuple[float, int]] = []

    def fire(when: float, number: int, then: Callable[[], None]) -> None:
        fired.append((when, number, now()))
        then()

    def set_timers(later: list[float], then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for delay in later:
            when, number = loop.time() + delay, len(due)
            due.append((when, number))
            loop.call_at(when, fire, when, number, then)

    async def main() -> None:
        extra = list(more)
        set_timers(delays, lambda: set_timers([extra.pop()], lambda: None) if extra else None)
        await asyncio.sleep(1e8)

    run_virtual(main, start=start)

    assert sorted((when, number) for when, number, _ in fired) == sorted(due)
    times = [at for _, _, at in fired]
    assert times == sorted(times)
    for when, _, at in fired:
        assert at == pytest.approx(when, rel=0, abs=max(2e-9, 2 * math.ulp(when)))
    whens = [when for when, _, _ in fired]
    assert all(b >= a - max(2e-9, 2 * math.ulp(a)) for a, b in pairwise(whens))


# Replays


def contest(trace: list[str], tasks: int = 5) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a program whose trace shows the order of its tasks' steps."""

    async def contestant(name: str) -> None:
        for step in range(3):
            trace.append(f"{name}{step}")
            await asyncio.sleep(0 if step else 1)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abcdefghij"[:tasks]:
                group.create_task(contestant(name))

    return main


def traced(seed: int | None, tasks: int = 5) -> list[str]:
    trace: list[str] = []
    run_virtual(contest(trace, tasks), shuffle=None if seed is None else random.Random(seed))
    return trace


def test_without_a_seed_tasks_take_turns() -> None:
    assert traced(None, 3) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_the_same_seed_gives_the_same_trace_and_each_task_keeps_its_order() -> None:
    traces = [traced(seed) for seed in range(20)]
    assert traces == [traced(seed) for seed in range(20)]
    assert len({tuple(trace) for trace in traces}) == 20
    for trace in traces:
        for name in "abcde":
            assert [step for step in trace if step[0] == name] == [f"{name}{step}" for step in range(3)]


def test_every_order_of_first_steps_occurs_for_some_seed() -> None:
    assert {tuple(traced(seed, 3)[:3]) for seed in range(100)} == set(permutations(["a0", "b0", "c0"]))


def test_a_shuffle_keeps_the_order_of_callbacks_and_of_steps_around_them() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()

        async def step(name: str) -> None:
            seen.append(name)

        tasks = []
        for block in range(10):
            tasks += [loop.create_task(step(f"step {block}")) for _ in range(3)]
            for number in range(3):
                loop.call_soon(seen.append, f"callback {block}.{number}")
        await asyncio.wait(tasks)
        return seen

    expected = [name for block in range(10) for name in [*[f"step {block}"] * 3, *[f"callback {block}.{number}" for number in range(3)]]]
    for seed in range(20):
        assert run_virtual(main, shuffle=random.Random(seed)) == expected


def test_a_shuffle_permutes_only_timers_with_the_same_time() -> None:
    async def main() -> list[tuple[int, int]]:
        fired: list[tuple[int, int]] = []
        for number in range(4):
            for due in (2, 1):
                asyncio.get_running_loop().call_at(due, fired.append, (due, number))
        await asyncio.sleep(3)
        return fired

    runs = {tuple(run_virtual(main, shuffle=random.Random(seed))) for seed in range(20)}
    assert len(runs) > 10
    for run in runs:
        assert [due for due, _ in run] == [1] * 4 + [2] * 4


def test_the_order_of_cancellation_does_not_depend_on_addresses() -> None:
    async def main() -> list[int]:
        cancelled: list[int] = []

        async def victim(number: int) -> None:
            try:
                await asyncio.sleep(math.inf)
            finally:
                cancelled.append(number)

        ballast = [bytearray(random.randrange(5000)) for _ in range(50)]

        async def fail() -> None:
            await asyncio.sleep(1)
            raise LookupError

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(victim(number))
                    ballast.pop()
                group.create_task(fail())
        except* LookupError:
            pass
        return cancelled

    first = run_virtual(main)
    assert sorted(first) == list(range(50))
    assert all(run_virtual(main) == first for _ in range(5))


def test_tasks_are_named_from_one_in_every_run() -> None:
    async def main() -> list[str]:
        named = asyncio.create_task(asyncio.sleep(0), name="mine")
        unnamed = asyncio.create_task(asyncio.sleep(0))
        await asyncio.wait([named, unnamed])
        current = asyncio.current_task()
        assert current is not None
        return [current.get_name(), named.get_name(), unnamed.get_name()]

    assert run_virtual(main) == run_virtual(main)
    assert run_virtual(main)[1] == "mine"
    assert "None" not in run_virtual(main)


# The end of a run.


def test_leftover_tasks_are_cancelled_and_reported_where_they_wait() -> None:
    ended: list[float] = []

    async def forgotten() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(now())

    async def main() -> str:
        background = asyncio.create_task(forgotten(), name="orphan")
        await asyncio.sleep(5)
        assert not background.done()
        return "result"

    with pytest.warns(LeftoverTaskWarning, match=r"orphan: .*forgotten \(test_virtual_loop\.py:\d+\) > Event\.wait"):
        assert run_virtual(main) == "result"
    assert ended == [5.0]


def test_an_exception_of_main_is_raised() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main)


def test_the_loop_works_in_debug_mode() -> None:
    async def main() -> float:
        assert await asyncio.to_thread(lambda: 1) == 1
        await asyncio.sleep(2)
        return now()

    with asyncio.Runner(loop_factory=VirtualTimeLoop, debug=True) as runner:
        assert runner.run(main()) == 2.0
        assert runner.run(main()) == 4.0


# Under pytest-asyncio.

pytest_plugins = ("pytester",)


def test_pytest_asyncio_runs_tests_on_it(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_asyncio", minversion="1.4")
    pytester.makeconftest(
        """
        from engine.testing.virtual_loop import VirtualTimeLoop

        def pytest_asyncio_loop_factories(config, item):
            return {"virtual": VirtualTimeLoop}
        """
    )
    pytester.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.asyncio
        async def test_sleep():
            await asyncio.sleep(1e6)
            assert asyncio.get_running_loop().time() == 1e6
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function").assert_outcomes(passed=1)
