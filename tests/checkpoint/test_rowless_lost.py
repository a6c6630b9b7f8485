"""Inputs of no row that are lost without a `fail`: with their task, forgotten, overdue, acked by a call that raises (EO-6)."""

import asyncio
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from engine import BasicBolt, Bolt, ComponentError, Run, StatefulBolt, TopologyBuilder, Tuple
from engine.api import Fields
from engine.checkpoint.rowless import MOST_KEPT, RowlessInputs
from engine.dead_letters import DeadLettersEntry
from engine.errors import FAILED, Failure
from engine.kernel import Source, make_tuple
from engine.testing import DropTuple, Fault, Finished, KillTask, run_topology
from engine.topology.task_port import BoltPort
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told, once
from tests.checkpoint.scenarios.rowless import Windows
from tests.checkpoint.test_rowless import BAD, WINDOWS
from tests.cli.commands import run_command


def run_windows(sink: Any, *, faults: tuple[Fault, ...] = (), settings: Any = None, **config: Any) -> tuple[Counter[Any], Finished]:
    """Run `numbers` > `windows` > `sink` > `count`. The sink gets rows and windows."""
    told, builder = Told(), TopologyBuilder("rows")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_bolt("windows", Windows).shuffle_grouping("numbers")
    declarer = builder.set_bolt("sink", sink, **(settings or {}))
    declarer.shuffle_grouping("windows", "rows").shuffle_grouping("windows", "windows")
    builder.set_bolt("count", told.create).shuffle_grouping("sink")
    finished = run_topology(builder.build(), FAST.replace(**config), faults=faults, limit_secs=10_000)
    return told.counts(), finished


def given_up(finished: Finished) -> int:
    """Return the number of dead letters of a run."""
    return finished.snapshot.entry(DeadLettersEntry).value.given_up


class Meets:
    """Does something bad when it meets the window 1002, as often as `left` says."""

    output_fields = "n"
    left: ClassVar[list[int]]

    def meets_bad(self, tup: Tuple) -> bool:
        """Tell whether to do it now."""
        if tup["n"] == BAD and self.left:
            self.left.pop()
            return True
        return False


class Dies(Meets, BasicBolt):
    """Dies while the input runs."""

    async def execute(self, tup: Tuple) -> Any:
        if self.meets_bad(tup):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(10)
        return (tup["n"],)


class DiesAtOnce(Meets, BasicBolt):
    """Dies of an error of its call."""

    def execute(self, tup: Tuple) -> Any:
        if self.meets_bad(tup):
            raise ConnectionError("broken")
        return (tup["n"],)


class DiesWithAList(Meets, Bolt):
    """Keeps inputs in a list, and dies with it."""

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)
        if self.meets_bad(tup):
            raise ConnectionError("broken")
        for each in self.kept:
            self.collector.emit((each["n"],), each)
            self.collector.ack(each)
        self.kept.clear()


class Forgets(Meets, Bolt):
    """Neither acks nor fails an input."""

    def execute(self, tup: Tuple) -> None:
        if not self.meets_bad(tup):
            self.collector.emit((tup["n"],), tup)
            self.collector.ack(tup)


class Keeps(Meets, Bolt):
    """Keeps an input for ever."""

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if self.meets_bad(tup):
            self.kept.append(tup)
            return
        self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)


class Hangs(Meets, BasicBolt):
    """Waits for ever in a call."""

    concurrency = 4

    async def execute(self, tup: Tuple) -> Any:
        if self.meets_bad(tup):
            await asyncio.sleep(1e9)
        return (tup["n"],)


class HangsAlone(Hangs):
    """Does the same with one call at a time."""

    concurrency = 1


RESTARTS = {"on_error": "restart"}
WAYS = [(Dies, None), (DiesAtOnce, RESTARTS), (DiesWithAList, RESTARTS), (Forgets, None), (Keeps, None), (Hangs, None), (HangsAlone, None)]


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize(("form", "settings"), WAYS)
def test_a_result_of_a_window_that_is_lost_twice_is_processed_once(form: type[Any], settings: Any) -> None:
    counts, finished = run_windows(type("Sink", (form,), {"left": [BAD] * 2}), settings=settings)
    assert counts == once(40) + WINDOWS
    assert given_up(finished) == 0
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 2


@pytest.mark.guarantee("EO-6", "DL-5")
@pytest.mark.parametrize(("form", "settings"), WAYS)
def test_a_result_of_a_window_that_is_always_lost_is_a_letter(form: type[Any], settings: Any, tmp_path: Path) -> None:
    """At least this one: what is taken along with it, or refused beside it, may be a letter, too. Nothing is missing without a letter."""
    counts, finished = run_windows(
        type("Sink", (form,), {"left": [BAD] * 1000}), settings=settings, state_provider=f"sqlite:///{tmp_path / 's.db'}"
    )
    letters = given_up(finished)
    assert counts == once(40) + WINDOWS - Counter([BAD])
    assert letters == 1


class KilledOnTheWay(Meets, BasicBolt):
    """Takes long for a window, so that a fault finds it in the call."""

    async def execute(self, tup: Tuple) -> Any:
        if tup["n"] >= 1000:
            await asyncio.sleep(0.2)
        return (tup["n"],)


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("secs", [1.05, 1.1, 1.15, 2.1, 3.1])
def test_a_killed_task_takes_no_result_of_a_window_along(secs: float) -> None:
    counts, finished = run_windows(KilledOnTheWay, faults=(KillTask("sink", at_secs=secs),))
    assert counts == once(40) + WINDOWS
    assert given_up(finished) == 0


@pytest.mark.guarantee("EO-3", "EO-6")
def test_a_result_of_a_window_that_a_fault_has_lost_is_emitted_again() -> None:
    counts, _ = run_windows(KilledOnTheWay, faults=(DropTuple("windows", "sink", number=11),))
    assert counts == once(40) + WINDOWS


class AcksThenRaises(Meets, StatefulBolt):
    """Acks its input and changes its state, then raises."""

    output_fields = "n"

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], self.state.get(tup["n"], 0) + 1)
        bad = self.meets_bad(tup)
        if not bad:
            self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)
        if bad:
            raise ValueError("after the ack")


@pytest.mark.guarantee("SV-2", "EO-6")
def test_an_input_of_no_row_that_a_call_acks_before_it_raises_fails() -> None:
    counts, finished = run_windows(type("Sink", (AcksThenRaises,), {"left": [BAD] * 2}))
    assert counts == once(40) + WINDOWS
    assert given_up(finished) == 0
    counts, finished = run_windows(type("Sink", (AcksThenRaises,), {"left": [BAD] * 1000}))
    assert counts == once(40) + WINDOWS - Counter([BAD])
    assert given_up(finished) == 1


@pytest.mark.guarantee("EO-6")
def test_only_the_first_failed_inputs_of_a_pass_keep_their_values() -> None:
    rowless, port = RowlessInputs(3, lambda: True), cast(BoltPort, None)
    tup = make_tuple((1,), Source("windows", "windows", 2, Fields("n")))
    for pass_ in range(3):
        rowless.begin_prepare(pass_)
        for _ in range(MOST_KEPT + 500):
            rowless.note_failed(3, port, tup, Failure(FAILED, "sink", 3))
        assert (rowless.number, len(rowless.failed)) == (MOST_KEPT + 500, MOST_KEPT)
        assert rowless.have_failed_before_barrier
        assert rowless.end_pass({"sink"})
        rowless.begin_pass()
    assert not rowless.has_work
    assert rowless.refused_by("sink") is None


@pytest.mark.guarantee("DL-6")
def test_a_letter_of_an_input_of_no_row_is_not_retried_and_the_reason_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    run_windows(type("Sink", (Forgets,), {"left": [BAD] * 1000}), state_provider=url)
    _, shown = run_command(capsys, "dead-letters", "retry", url, "--all", status=2)
    assert "is an input from 'windows', which is no spout with positions" in shown
    assert "Process the values of a bolt's result by hand" in shown


class EmitsBehindTheCommit(StatefulBolt):
    """Emits in `pre_commit`, plain or async, and in background work of its own."""

    output_fields = "n"
    is_async: ClassVar[bool]
    emits: ClassVar[bool]

    def prepare(self) -> None:
        self.context.create_task(self.work())

    async def work(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0.1)
            self.collector.emit((5000,))

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], 1)
        self.collector.ack(tup)

    def pre_commit(self, txid: int) -> Any:
        return self.wait_and_emit() if self.is_async else self.emit()

    async def wait_and_emit(self) -> None:
        await asyncio.sleep(0.25)
        self.emit()

    def emit(self) -> None:
        if self.emits:
            self.collector.emit((6000,))


@pytest.mark.guarantee("CP-4")
@pytest.mark.parametrize("is_async", [False, True])
def test_pre_commit_may_not_emit_beside_exact_spouts_but_background_work_may(is_async: bool) -> None:
    told = run_behind_commits(is_async=is_async, emits=False)
    assert told[5000] > 5
    with pytest.raises(ComponentError, match=r"pre_commit\(0\) emits, but this belongs to the next interval"):
        run_behind_commits(is_async=is_async, emits=True)


def run_behind_commits(*, is_async: bool, emits: bool) -> Counter[Any]:
    """Run `numbers` > `emits` > `count`."""
    told, builder = Told(), TopologyBuilder("commits")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_bolt("emits", type("Emits", (EmitsBehindTheCommit,), {"is_async": is_async, "emits": emits})).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("emits")
    run_topology(builder.build(), FAST, limit_secs=100)
    return told.counts()


class DiesInAChild(BasicBolt):
    """Ends its child process at the window 1002, as often as lines are missing in a file."""

    output_fields = "n"

    def __init__(self, deaths: str, most: int) -> None:
        self.deaths, self.most = Path(deaths), most

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] == BAD and len(self.deaths.read_text()) < self.most:
            with self.deaths.open("a") as file:
                file.write("x")
            os._exit(1)
        return (tup["n"],)


@pytest.mark.guarantee("EO-6", "PR-2")
@pytest.mark.parametrize("most", [1, 100])
def test_a_child_process_that_dies_takes_no_result_of_a_window_along(most: int, tmp_path: Path) -> None:
    """Rows and results that waited in the child come again. One that always kills the child becomes a letter."""
    deaths = tmp_path / "deaths"
    deaths.write_text("")
    told, builder = Told(), TopologyBuilder("rows", FAST.replace(state_checkpoint_interval_ms=200))
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.02))
    builder.set_bolt("windows", Windows).shuffle_grouping("numbers")
    sink = builder.set_bolt("sink", partial(DiesInAChild, str(deaths), most), processes=True)
    sink.shuffle_grouping("windows", "rows").shuffle_grouping("windows", "windows")
    builder.set_bolt("count", told.create).shuffle_grouping("sink")
    asyncio.run(run_to_the_end(builder))
    assert told.counts() == once(40) + WINDOWS - Counter([BAD] * (most > 1))
    assert len(deaths.read_text()) < 20


async def run_to_the_end(builder: TopologyBuilder) -> None:
    """Run a topology in real time."""
    async with asyncio.timeout(60):
        async with Run(builder.build()) as run:
            await run.completed()
