"""An instance whose calls raise a hundred times in a row is renewed, so that a broken connection heals (SV-1)."""

import asyncio
import itertools
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, StatefulBolt, Tuple
from engine.api import SpoutExhausted
from tests.runtime.stage import SEED, AtOnce, LogLines, Numbers, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("SV-1")


class Fails(Bolt):
    """Raises at every input while the class attribute says so."""

    made: list["Fails"]
    well = False

    def __init__(self) -> None:
        self.calls = 0
        self.closed_at = -1.0
        self.made.append(self)

    def execute(self, tup: Tuple) -> None:
        self.calls += 1
        if not self.well and not self.is_well(tup):
            raise OSError("broken pipe")
        self.collector.ack(tup)

    def is_well(self, tup: Tuple) -> bool:
        return False

    def cleanup(self) -> None:
        self.closed_at = loop().time()


def fresh(base: type[Fails] = Fails, **members: Any) -> type[Fails]:
    return type("Fresh", (base,), {"made": [], "__module__": __name__, **members})


class Steady(Numbers):
    """Emits one number every tenth of a second."""

    def next_tuple(self) -> None:
        if not self.waiting or self.context.clock.now() >= 0.1 * (self.numbers.stop - len(self.waiting)):
            super().next_tuple()


def test_after_a_hundred_failures_in_a_row_the_instance_is_renewed() -> None:
    bolt, spout = fresh(), AtOnce(150)
    with LogLines() as log:
        run = play_run(chain(lambda: spout, bolt))
    assert [each.calls for each in bolt.made] == [100, 50]
    assert all(each.closed_at == 0 for each in bolt.made), "each instance must be closed"
    assert sorted(spout.failed) == list(range(150))
    assert {failure.reason for failure in spout.failures} == {"error"}
    assert run.state == "complete"
    assert run.snapshot().components["bolt1"].restarts == 1
    [line] = log.having("in a row failed")
    assert "100 calls in a row failed, the last one with OSError: broken pipe" in line


@pytest.mark.parametrize("number", [1, 7])
def test_the_number_of_failures_is_a_setting(number: int) -> None:
    bolt, spout = fresh(), AtOnce(number + 1)
    play_run(chain(lambda: spout, bolt), Config(renew_after_failures=number, seed=SEED))
    assert [each.calls for each in bolt.made] == [number, 1]


def test_a_success_resets_the_count() -> None:
    """Given 99 failures, a success and 99 failures, then only one more failure renews the instance."""

    class Recovers(Fails):
        def is_well(self, tup: Tuple) -> bool:
            return tup[0] == 99  # type: ignore[no-any-return]

    for count, instances in ((199, 1), (200, 2)):
        bolt, spout = fresh(Recovers), AtOnce(count)
        play_run(chain(lambda spout=spout: spout, bolt))
        assert len(bolt.made) == instances
        assert spout.acked == [99]


def test_a_fail_tuple_and_a_fail_are_neither_a_failure_nor_a_success() -> None:
    class Refuses(BasicBolt):
        made = 0

        def __init__(self) -> None:
            Refuses.made += 1

        def execute(self, tup: Tuple) -> None:
            if tup[0] % 2:
                raise FailTuple("odd")
            if tup[0] < 198 or tup[0] > 500:
                raise ValueError("even")

    play_run(chain(lambda: AtOnce(300), Refuses))
    assert Refuses.made == 1, "99 failures in a row are not enough"
    Refuses.made = 0
    play_run(chain(lambda: AtOnce(298, first=501), Refuses))
    assert Refuses.made == 2, "refusals must not reset the count"

    class OnlyRefuses(BasicBolt):
        made = 0

        def __init__(self) -> None:
            OnlyRefuses.made += 1

        def execute(self, tup: Tuple) -> None:
            raise FailTuple("every one")

    with LogLines() as log:
        run = play_run(chain(lambda: AtOnce(500), OnlyRefuses))
    assert OnlyRefuses.made == 1
    assert run.snapshot().components["bolt1"].errors == 0
    assert not log.having("raised")


def test_renewals_without_a_success_follow_after_pauses_that_double_to_30_seconds() -> None:
    """The instance goes on meanwhile, so no input fails because of a missing instance."""
    times: list[float] = []

    class Notes(Fails):
        def prepare(self) -> None:
            times.append(self.context.clock.now())

    class Ten(Numbers):
        """Emits ten numbers each tenth of a second."""

        def next_tuple(self) -> None:
            if not self.waiting:
                raise SpoutExhausted
            if self.context.clock.now() >= 0.01 * (self.numbers.stop - len(self.waiting)):
                for _ in range(10):
                    super().next_tuple()

    spout = Ten(15_000)
    run = play_run(chain(lambda: spout, fresh(Notes)))
    assert run.state == "complete"
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [round(pause) for pause in pauses] == [1, 1, 2, 4, 8, 16, 30, 30, 30]
    assert {failure.reason for failure in spout.failures} == {"error"}


def test_after_a_success_the_next_renewal_has_no_pause() -> None:
    times: list[float] = []

    class Notes(Fails):
        def prepare(self) -> None:
            times.append(self.context.clock.now())

        def is_well(self, tup: Tuple) -> bool:
            return tup[0] % 101 == 100  # type: ignore[no-any-return]

    play_run(chain(lambda: AtOnce(505), fresh(Notes)))
    assert len(times) == 6
    assert times[-1] < 1


@pytest.mark.parametrize("kind", ["concurrent", "threads"])
def test_the_running_calls_return_before_the_instance_is_renewed(kind: str) -> None:
    """Given one long call among a hundred that raise, then the long call ends by itself and is acked."""
    made: list[Any] = []
    cut: list[int] = []

    class Concurrent(BasicBolt):
        concurrency = 4

        def __init__(self) -> None:
            made.append(self)

        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    cut.append(0)
                    raise
                assert len(made) == 1
                return
            await asyncio.sleep(0.01)
            if len(made) == 1:
                raise OSError("broken pipe")

        def cleanup(self) -> None:
            self.closed_at = loop().time()

    class Threaded(BasicBolt):
        threads = 4

        def __init__(self) -> None:
            made.append(self)

        def execute(self, tup: Tuple) -> None:
            if len(made) == 1 and tup[0]:
                raise OSError("broken pipe")

        def cleanup(self) -> None:
            self.closed_at = loop().time()

    spout = AtOnce(200)
    run = play_run(chain(lambda: spout, Concurrent if kind == "concurrent" else Threaded))
    assert run.state == "complete"
    assert not cut
    assert len(made) == 2
    assert 0 in spout.acked
    assert 100 <= len(spout.failed) <= 103, "only calls in flight with the hundredth may fail too"
    if kind == "concurrent":
        assert made[0].closed_at == 20


def test_calls_that_exceed_the_message_timeout_are_cancelled_and_fail_with_the_instance() -> None:
    made: list[Any] = []
    cut: list[float] = []

    class Hangs(Bolt):
        concurrency = 4

        def __init__(self) -> None:
            made.append(self)

        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 0 and len(made) == 1:
                try:
                    await asyncio.sleep(10_000)
                except asyncio.CancelledError:
                    cut.append(loop().time())
                    raise
            if len(made) == 1:
                raise OSError("broken pipe")
            self.collector.ack(tup)

    spout = AtOnce(200)
    config = Config(message_timeout_secs=12, enable_message_timeouts=False, seed=SEED)
    run = play_run(chain(lambda: spout, Hangs), config)
    assert run.state == "complete"
    assert len(made) == 2
    assert cut == [pytest.approx(12)]
    reasons = dict(zip(spout.failed, (failure.reason for failure in spout.failures), strict=True))
    assert reasons[0] == "task_died"
    assert "calls in a row failed" in str(spout.failures[spout.failed.index(0)].error)
    assert len(spout.acked) >= 90


@pytest.mark.guarantee("SV-3")
def test_a_prepare_that_raises_in_a_renewal_is_retried_until_it_succeeds() -> None:
    """Given a database that is away from 5 s to 200 s, then inputs fail meanwhile, and succeed afterwards."""
    tries: list[float] = []

    class Connects(Fails):
        def prepare(self) -> None:
            now = self.context.clock.now()
            if 5 <= now < 200:
                tries.append(now)
                raise OSError("no route to the database")

        def is_well(self, tup: Tuple) -> bool:
            return not 5 <= self.context.clock.now() < 200

    failed_at: list[tuple[float, str, str | None]] = []

    class Tells(Steady):
        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            failure = self.failures[-1]
            failed_at.append((self.context.clock.now(), failure.reason, failure.error))

    spout = Tells(2500)
    run = play_run(chain(lambda: spout, fresh(Connects)))
    assert run.state == "complete"
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
    assert pauses[:6] == [0, 1, 2, 4, 8, 16], "a renewal must not count as a death"
    assert set(pauses[6:]) == {30}
    down = [each for each in failed_at if each[1] == "task_died"]
    assert {error for _, _, error in down} == {"OSError: no route to the database"}
    assert len(down) > 1500, "inputs must fail at once, not by timeout"
    healed = tries[-1] + 31
    assert all(secs < healed + 1 for secs, _, _ in failed_at)
    assert spout.acked[-100:] == list(range(2400, 2500))


def test_unsettled_inputs_fail_when_their_instance_is_renewed() -> None:
    class Holds(Fails):
        def execute(self, tup: Tuple) -> None:
            if tup[0] < 3:
                self.kept = [*getattr(self, "kept", []), tup]
            else:
                super().execute(tup)

    spout = AtOnce(110)
    play_run(chain(lambda: spout, fresh(Holds)))
    reasons = dict(zip(spout.failed, (failure.reason for failure in spout.failures), strict=True))
    assert [reasons.pop(number) for number in range(3)] == ["task_died"] * 3
    assert set(reasons.values()) == {"error"}


@pytest.mark.guarantee("SV-2")
def test_a_renewed_stateful_instance_gets_its_state_back() -> None:
    """Uncommitted changes are lost with the instance, and their inputs fail. Nothing is counted twice."""
    ends: list[dict[Any, Any]] = []
    made: list[Any] = []

    class Counts(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state
            made.append(self)

        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            if 50 <= tup[0] < 200 and len(made) == 1:
                raise OSError("broken pipe")
            self.collector.ack(tup)

        def cleanup(self) -> None:
            ends.append(dict(self.state.items()))

    spout = Steady(250)
    run = play_run(chain(lambda: spout, Counts))
    assert run.state == "complete"
    assert len(made) == 2
    assert ends[-1] == dict.fromkeys(spout.acked, 1)
    assert sorted(spout.acked + spout.failed) == list(range(250))
    assert len(spout.acked) == 150


def test_a_stop_during_the_wait_for_running_calls_ends_at_once() -> None:
    class Hangs(Bolt):
        concurrency = 2

        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                await asyncio.sleep(10_000)
            raise OSError("broken pipe")

    async def main() -> None:
        async with running(chain(lambda: AtOnce(500), Hangs), message_timeout_secs=100) as run:
            await asyncio.sleep(5)
            assert run.state == "running"
        assert loop().time() == 5

    play(main)


def test_failed_background_work_during_the_wait_for_calls_replaces_the_instance_once() -> None:
    made: list[Any] = []

    class Both(Bolt):
        concurrency = 4

        def prepare(self) -> None:
            made.append(self)
            if len(made) == 1:
                self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(5)
            raise OSError("background")

        async def execute(self, tup: Tuple) -> None:
            if len(made) > 1:
                self.collector.ack(tup)
                return
            if tup[0] == 0:
                await asyncio.sleep(10)
                self.collector.ack(tup)
                return
            raise OSError("broken pipe")

    spout = AtOnce(200)
    run = play_run(chain(lambda: spout, Both))
    assert run.state == "complete"
    assert len(made) == 2
    assert 0 in spout.acked
    assert run.snapshot().components["bolt1"].restarts == 1


def test_with_restart_no_instance_is_renewed() -> None:
    """Only `max_task_restarts` counts its deaths."""
    with pytest.raises(engine.ComponentError, match="died more than 3 times"):
        play_run(chain(lambda: AtOnce(300), fresh()), Config(on_error="restart", max_task_restarts=3, renew_after_failures=2))
