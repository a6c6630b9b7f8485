"""Status 3: a run that ended in an orderly way, and left something undone, says how much (RUN-4)."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine import stateful_bolt
from engine.api import BasicBolt, Bolt, FailTuple, Fields, Spout, SpoutExhausted, spout
from engine.cli import Outcome, run_in_terminal
from engine.cli.console import session
from engine.config import Config
from engine.dead_letters import DeadLettersEntry
from engine.errors import Failure
from engine.flow import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings
from engine.topology import Topology, TopologyBuilder
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.undone import Undone
from tests.cli.commands import run_command
from tests.cli.remote import TOKEN, served_run
from tests.web.runs import square

pytestmark = pytest.mark.guarantee("RUN-4")


class Numbers(Spout):
    """Emits 0 to 4. A subclass decides about failures."""

    output_fields = Fields("n")

    def __init__(self) -> None:
        self.waiting = list(range(5))

    def next_tuple(self) -> None:
        if not self.waiting:
            raise SpoutExhausted
        number = self.waiting.pop(0)
        self.collector.emit((number,), message_id=number)


class Replays(Numbers):
    def fail(self, message_id: Any) -> None:
        self.waiting.append(message_id)


class Forgets(Numbers):
    def fail(self, message_id: object) -> None:
        """Do nothing, in a way that nobody else can know."""


class Take(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class FailsTwo(Bolt):
    def execute(self, tup: Any) -> None:
        if tup["n"] == 2:
            raise FailTuple("two")
        self.collector.ack(tup)


class FailsOnce(Bolt):
    def __init__(self) -> None:
        self.seen: set[int] = set()

    def execute(self, tup: Any) -> None:
        if tup["n"] not in self.seen:
            self.seen.add(tup["n"])
            raise FailTuple("the first time")
        self.collector.ack(tup)


class FailsAll(Bolt):
    def execute(self, tup: Any) -> None:
        raise FailTuple("each")


class Never(Bolt):
    async def execute(self, tup: Any) -> None:
        await asyncio.Event().wait()


def generator(taken: list[Any] | None = None, **options: Any) -> Any:
    """Return a `@spout` of the same numbers. taken: gets the rows that are given up."""

    def give_up(row: Any, failure: object) -> None:
        assert taken is not None
        taken.append(row)

    @spout("n", on_give_up=None if taken is None else give_up, **options)
    def numbers() -> Any:
        yield from ((n,) for n in range(5))

    return numbers


def topology(source: Any, bolt: type[Bolt]) -> Topology:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", source)
    builder.set_bolt("take", bolt).shuffle_grouping("numbers")
    return builder.build()


def run(source: Any, bolt: type[Bolt], **options: Any) -> tuple[Outcome, Undone]:
    """Run the topology. Return its outcome, and what it left undone."""
    outcome = run_in_terminal(topology(source, bolt), options.pop("config", None), view=options.pop("view", "silent"), **options)
    assert outcome.error is None
    assert outcome.snapshot is not None
    assert outcome.snapshot.undone is not None
    return outcome, outcome.snapshot.undone


@pytest.mark.parametrize(
    ("source", "bolt", "undone"),
    [
        (Numbers, Take, Undone()),
        (Numbers, FailsTwo, Undone(failed=1)),
        (Numbers, FailsAll, Undone(failed=5)),
        (Replays, FailsOnce, Undone()),
        (Forgets, FailsTwo, Undone()),  # it may keep the message elsewhere
        (Forgets, FailsAll, Undone(failed=5)),
        (generator(max_retries=0), FailsTwo, Undone(failed=1)),
        (generator(max_retries=2), FailsAll, Undone(failed=5)),
        (generator(), FailsOnce, Undone()),
        (generator([], max_retries=0), FailsTwo, Undone()),
        (generator(None, max_retries=0), Take, Undone()),
    ],
)
def test_messages_that_failed_for_good_are_counted(
    source: Any, bolt: type[Bolt], undone: Undone, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, found = run(source, bolt)

    assert found == undone
    assert outcome.exit_status == (3 if undone else 0)
    assert ("numbers: left undone: " in capsys.readouterr().err) == bool(undone)


def test_a_give_up_that_raises_leaves_its_message_undone() -> None:
    def give_up(row: Any, failure: object) -> None:
        raise ValueError("no place")

    @spout("n", max_retries=0, on_give_up=give_up)
    def numbers() -> Any:
        yield (2,)

    assert run(numbers, FailsTwo)[1] == Undone(failed=1)


@pytest.mark.parametrize(("options", "status", "failed"), [({}, 3, 1), ({"positions": True}, 0, 0), ({"repeatable": True}, 0, 0)])
def test_a_row_that_cannot_be_emitted_is_undone_unless_it_is_a_dead_letter(
    options: dict[str, Any], status: int, failed: int, tmp_path: Path
) -> None:
    @spout("n", **options)
    def numbers(after: object = None) -> Any:
        row = ({},)  # a dict has no hash, by which fields_grouping chooses the task
        yield (1, row) if "positions" in options else row

    builder = TopologyBuilder("numbers", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("take", Take).fields_grouping("numbers", "n")
    if options:
        builder.set_bolt("count", stateful_bolt()(lambda tup, state: None)).global_grouping("numbers")
    outcome = run_in_terminal(builder.build(), view="silent")
    assert outcome.snapshot is not None
    if options:
        assert outcome.snapshot.entry(DeadLettersEntry).value.stored == 1
    assert (outcome.exit_status, outcome.snapshot.undone) == (status, Undone(failed=failed))


@pytest.mark.parametrize("source", [Numbers, generator()])
def test_a_drain_that_runs_out_of_time_leaves_its_open_trees_undone(source: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, undone = run(source, Never, config=Config(drain_timeout_secs=0.01), for_secs=0.1)

    assert (outcome.exit_status, undone.open, undone.failed) == (3, 5, 0)
    assert outcome.snapshot is not None
    assert outcome.snapshot.state == "drained"
    text = "numbers: left undone: 5 messages were still open, the drain ran out of time (open trees of 'numbers': 5"
    assert text in capsys.readouterr().err


def test_a_batch_that_cannot_be_committed_is_told_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    class Refuses(BasicBolt):
        output_fields = "n"

        def execute(self, tup: Any) -> Any:
            raise FailTuple("the service is away")

    builder = TransactionalTopologyBuilder("batches", "numbers", MemoryTransactionalSpout([(1,), (2,)], "n", 2))
    builder.set_bolt("refuses", Refuses).shuffle_grouping("numbers")
    outcome = run_in_terminal(builder.build(), Config(drain_timeout_secs=0.01), view="silent", for_secs=0.2)

    assert outcome.exit_status == 3
    said = capsys.readouterr().err
    assert "batches: left undone: 1 message was still open, batch 1 failed " in said
    assert "and is not committed ('refuses' (task 3) failed it: the service is away), the drain ran out of time" in said


def test_a_message_that_fails_during_a_drain_is_undone() -> None:
    outcome, undone = run(generator(max_retries=None), FailsAll, for_secs=0.1)

    assert (outcome.exit_status, undone) == (3, Undone(open=5))


def test_the_last_event_of_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    run(Numbers, FailsTwo, view="json")

    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["exit_status"], last["undone"]) == (3, {"open": 0, "failed": 1, "unfinished": "", "failing": "", "owed": 0})


# The engine's own spouts


class _Records(FlowProducer):
    def __init__(self, taken: list[Any] | None) -> None:
        self.taken = taken

    def records(self, after: Any) -> Any:
        yield from enumerate(range(5), 1)

    def give_up(self, position: Any, record: Any, failure: Failure) -> None:
        if self.taken is None:
            super().give_up(position, record, failure)
        else:
            self.taken.append(record)


class _FailsTwoOfFlow(FlowControlBolt):
    async def process(self, record: Any) -> None:
        if record == 2:
            raise FailTuple("two")


@pytest.mark.parametrize(("taken", "failed"), [(None, 1), ([], 0)])
def test_records_that_a_producer_gives_up_are_undone_unless_it_keeps_them(taken: list[Any] | None, failed: int) -> None:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", lambda: FlowControlSpout(_Records(taken), FlowSettings(max_retries=0)))
    builder.set_bolt("store", _FailsTwoOfFlow).direct_grouping("numbers")
    outcome = run_in_terminal(builder.build(), view="silent")

    assert outcome.snapshot is not None
    assert (outcome.exit_status, outcome.snapshot.undone) == (3 if failed else 0, Undone(failed=failed))


class _TakesBatches(BasicBolt):
    def execute(self, tup: Any) -> None:
        """Do nothing with the input."""


class _FailsBatches(BasicBolt):
    def execute(self, tup: Any) -> None:
        raise FailTuple("each")


@pytest.mark.parametrize(("bolt", "is_undone"), [(_FailsBatches, True), (_TakesBatches, False)])
def test_batches_that_have_not_committed_are_undone(bolt: type[BasicBolt], is_undone: bool) -> None:
    source = MemoryTransactionalSpout([[(1,), (2,)]], "n", take=1)
    builder = TransactionalTopologyBuilder("numbers", "numbers", source)
    builder.set_bolt("take", bolt).shuffle_grouping("numbers")
    config = Config(drain_timeout_secs=0.01, state_provider="memory://")
    outcome = run_in_terminal(builder.build(), config, view="silent", for_secs=0.2 if is_undone else None)

    assert outcome.snapshot is not None
    assert outcome.snapshot.undone is not None
    assert (outcome.exit_status, outcome.snapshot.undone.open > 0) == ((3, True) if is_undone else (0, False))


# --for


def test_the_time_of_for_begins_when_the_run_is_running() -> None:
    class SlowStart(Take):
        async def prepare(self) -> None:
            await asyncio.sleep(0.4)

    class Endless(Numbers):
        def next_tuple(self) -> None:
            self.collector.emit((1,), message_id=1)

    outcome, undone = run(Endless, SlowStart, for_secs=0.5)
    assert outcome.snapshot is not None
    assert (outcome.exit_status, bool(undone)) == (0, False)
    assert outcome.snapshot.uptime_secs >= 0.9


def test_for_ends_a_run_that_does_not_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "LEAST_START_SECS", 0.0)

    class NeverReady(Take):
        async def prepare(self) -> None:
            await asyncio.Event().wait()

    outcome = run_in_terminal(topology(Numbers, NeverReady), view="plain", for_secs=0.1)

    assert (outcome.exit_status, outcome.error) == (3, None)
    assert "0.1 s have passed, and the run has not started" in capsys.readouterr().err


@spout("number", max_retries=0)
async def endless() -> AsyncIterator[tuple[int]]:
    for number in count(12):
        yield (number,)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("command", "status"), [("drain", 3), ("stop", 0)])
def test_a_drain_ends_with_the_status_of_the_run(command: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A stop has done what it promises, whatever it leaves undone."""
    builder = TopologyBuilder("squares")
    builder.set_spout("in", endless)
    builder.set_bolt("square", square).shuffle_grouping("in")
    with served_run(builder.build()) as served:
        while not served.run.snapshot().components["in"].failed:
            time.sleep(0.01)
        _, err = run_command(capsys, "ctl", served.url, command, "--token", TOKEN, status=status)
        assert "squares: left undone: 1 message failed for good" in err


def test_a_row_that_an_exact_source_has_given_up_is_undone_once(tmp_path: Path) -> None:
    """Given a row that fails in every pass, then the run ends with status 3 and names one message, not one per pass."""
    topology = tmp_path / "numbers.py"
    topology.write_text(
        "from engine import Config, TopologyBuilder, spout, stateful_bolt\n"
        "@spout('number', positions=True)\n"
        "def numbers(after):\n"
        "    for number in range(after or 0, 50):\n"
        "        yield number + 1, (number,)\n"
        "@stateful_bolt()\n"
        "def count(tup, state):\n"
        "    state.put('sum', state.get('sum', 0) + 100 // (tup['number'] - 7))\n"
        "builder = TopologyBuilder('numbers', Config(state_checkpoint_interval_ms=20))\n"
        "builder.set_spout('numbers', numbers)\n"
        "builder.set_bolt('count', count).global_grouping('numbers')\n"
        "topology = builder.build()\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, "-m", "engine", "run", str(topology)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert "left undone: 1 message failed for good" in done.stderr
