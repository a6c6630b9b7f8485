"""The latest failed trees in a snapshot: as text, the newest last, and cheap in a storm of failures (SV-5)."""

import asyncio
import gc
import json
import tracemalloc
import weakref
from typing import Any

import pytest

from engine import BasicBolt, Config, FailTuple, Fields, Inlet, Spout, SpoutExhausted, TopologyBuilder, Tuple, TupleFailed, spout
from engine.clock import Clock
from engine.errors import Failure
from engine.runtime.latest_failures import LONGEST_ID, MOST_FAILURES, LatestFailures
from engine.runtime.plan import TaskInfo
from engine.safe_text import safe_repr
from engine.testing import Feeder
from tests.runtime.stage import Fails, Forgets, Keeper, Numbers, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("SV-5")
INFO = TaskInfo("source", 1, 0)


class Ids(Spout):
    """Emits one tuple for each message id."""

    output_fields = Fields("number")

    def __init__(self, *ids: object) -> None:
        self.ids = list(ids)

    def next_tuple(self) -> None:
        if not self.ids:
            raise SpoutExhausted
        self.collector.emit((1,), self.ids.pop(0))


class Refuses(BasicBolt):
    """Refuses each number with a text."""

    def execute(self, tup: Tuple) -> None:
        raise FailTuple(f"{tup[0]} is refused")


def noted(*ids: object, now: list[float] | None = None) -> LatestFailures:
    at = now or [0.0]
    failures = LatestFailures(Clock(lambda: at[0], lambda: 1_000.0))
    for message_id in ids:
        failures.note(INFO, message_id, Failure("failed"))
    return failures


def test_a_failed_tree_is_in_the_snapshot() -> None:
    run = play_run(chain(lambda: Numbers(3), Refuses))
    failures = run.snapshot().failures
    assert [failure.message_id for failure in failures] == ["0", "1", "2"]
    last = failures[-1]
    assert (last.component_id, last.task_id, last.reason) == ("source", 1, "failed")
    assert (last.failed_component, last.failed_task, last.error) == ("bolt1", 2, "2 is refused")


def test_the_json_of_a_failed_tree() -> None:
    run = play_run(chain(lambda: Numbers(1), Refuses))
    [shown] = json.loads(json.dumps(run.snapshot().to_dict()))["failures"]
    assert shown.pop("time").endswith("+00:00")
    assert shown == {
        "component": "source",
        "task": 1,
        "message_id": "0",
        "reason": "failed",
        "failed_component": "bolt1",
        "failed_task": 2,
        "error": "0 is refused",
    }


def test_a_timeout_names_the_task_that_owes_the_ack() -> None:
    run = play_run(chain(lambda: Numbers(1), Keeper), Config(message_timeout_secs=5))
    [failure] = run.snapshot().failures
    assert (failure.reason, failure.failed_component, failure.failed_task) == ("timeout", "bolt1", 2)
    assert failure.error is not None
    assert "has neither acked nor failed it" in failure.error


def test_only_the_latest_failures_are_kept() -> None:
    class EachSecond(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            super().next_tuple()

    run = play_run(chain(lambda: EachSecond(50), Fails))
    assert [failure.message_id for failure in run.snapshot().failures] == [str(number) for number in range(30, 50)]


def test_every_kind_of_spout_notes_its_failures() -> None:
    @spout("number", max_retries=0)
    def numbers():  # type: ignore[no-untyped-def]
        yield (7,)

    class NoFail(Spout):
        output_fields = Fields("number")
        done = False

        def next_tuple(self) -> None:
            if self.done:
                raise SpoutExhausted
            self.done = True
            self.collector.emit((1,), "mine")

    feeder = Feeder("number", max_retries=0)
    feeder.feed_all([(1,)])
    feeder.close()
    shown = [play_run(chain(source, Forgets)).snapshot().failures for source in (numbers, NoFail, feeder)]
    assert [len(failures) for failures in shown] == [1, 1, 1]
    assert [failures[0].message_id for failures in shown[:2]] == ["1", "'mine'"]
    assert {failures[0].reason for failures in shown} == {"forgotten"}


def test_an_inlet_shows_the_values_that_it_sent() -> None:
    builder = TopologyBuilder("inlet")
    builder.set_spout("in", lambda: Inlet("name"))
    builder.set_bolt("refuses", Refuses).shuffle_grouping("in")

    async def main() -> str:
        async with running(builder.build()) as run:
            with pytest.raises(TupleFailed):
                await run.inlet("in").send(("ada",))
            [failure] = run.snapshot().failures
            return failure.message_id

    assert play(main) == "('ada',)"


def test_the_engines_own_trees_are_left_out() -> None:
    failures = LatestFailures(Clock(lambda: 0.0, lambda: 0.0))
    failures.note(TaskInfo("$checkpoint", 9, 0), 1, Failure("failed"))
    assert failures.read() == ()


# A storm of failures


def test_a_storm_costs_no_repr_for_each_failure() -> None:
    shown: list[int] = []

    class Shown:
        def __repr__(self) -> str:
            shown.append(1)
            return "shown"

    now = [0.0]
    failures = LatestFailures(Clock(lambda: now[0], lambda: 0.0))
    for number in range(300_000):
        now[0] = number / 100_000
        failures.note(INFO, Shown(), Failure("failed"))
    assert len(shown) == 3 * MOST_FAILURES


def test_a_slow_repr_is_called_seldom() -> None:
    now, calls = [0.0], []

    class Slow:
        def __repr__(self) -> str:
            calls.append(now[0])
            now[0] += 0.5
            return "slow"

    failures = LatestFailures(Clock(lambda: now[0], lambda: 0.0))
    while now[0] < 200:
        failures.note(INFO, Slow(), Failure("failed"))
        now[0] += 0.01
    assert len(calls) == 4


def test_a_storm_holds_bounded_memory() -> None:
    class Large:
        def __repr__(self) -> str:
            return "x" * 1_000_000

    now = [0.0]
    failures = LatestFailures(Clock(lambda: now[0], lambda: 0.0))
    reason = Failure("failed", "bolt", 3, "e" * 1_000_000)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100_000):
        now[0] = number / 10_000
        failures.note(INFO, Large(), reason)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 200_000


def test_no_message_id_is_kept_alive() -> None:
    class Id:
        pass

    message_id = Id()
    watched = weakref.ref(message_id)
    failures = noted(message_id)
    del message_id
    gc.collect()
    assert watched() is None
    assert len(failures.read()) == 1


# Message ids that are hard to show


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class LongText(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise ValueError("no slices")


@pytest.mark.parametrize(
    ("message_id", "text"),
    [
        (Raises(ValueError("no")), "<Raises that cannot be shown: a value's repr raised ValueError>"),
        (Raises(SystemExit(3)), "<Raises that cannot be shown: a value's repr raised SystemExit>"),
        (Raises(RecursionError()), "<Raises that cannot be shown: a value's repr raised RecursionError>"),
        ("a" * 10_000_000, "'" + "a" * (LONGEST_ID - 4) + "..."),
        (b"a" * 10_000_000, "b'" + "a" * (LONGEST_ID - 5) + "..."),
        ("\ud800\n", r"'\ud800\n'"),
        (None, "None"),
        (LongText("x"), "<LongText that cannot be shown: a value's repr raised ValueError>"),
    ],
    ids=["raises", "exits", "recursion", "long text", "long bytes", "surrogate", "none", "subclass"],
)
def test_the_text_of_a_message_id(message_id: object, text: str) -> None:
    assert safe_repr(message_id, LONGEST_ID) == text


def test_a_repr_that_raises_does_not_hurt_the_run() -> None:
    run = play_run(chain(lambda: Ids(Raises(SystemExit(1)), Raises(ValueError("no")), "fine"), Fails))
    assert run.state == "complete"
    assert [failure.message_id for failure in run.snapshot().failures][-1] == "'fine'"


def test_a_repr_of_a_wrong_type_is_an_error_text() -> None:
    class Wrong:
        def __repr__(self) -> Any:
            return 3

    assert safe_repr(Wrong()) == "<Wrong that cannot be shown: a value's repr raised TypeError>"
