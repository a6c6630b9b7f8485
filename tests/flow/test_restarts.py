"""Repeated deaths of spout tasks, bolt tasks and ackers, in virtual time (FC-3, FC-6)."""

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engine import Config, FailTuple, FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Topology, TopologyBuilder
from engine.errors import StateUnavailable
from engine.runtime.run import Run
from engine.state import Ledger
from engine.state.memory import MemoryProvider
from engine.testing import ACKER, KillTask, RaiseError, run_topology

TASKS = 2
"""Tasks of the spout."""
COUNT = 1500
EAGER = FlowSettings(checkpoint_interval_ms=10)


class Kept:
    """Done records and recorded positions of a run. The run's store checks each written position."""

    def __init__(self) -> None:
        self.done: list[set[int]] = [set() for _ in range(TASKS)]
        self.times = 0
        self.written: list[list[int]] = [[] for _ in range(TASKS)]
        self.begun: list[list[int]] = [[] for _ in range(TASKS)]
        self.writes = 0
        self.away: range = range(0)
        """Numbers of the writes for which the store is away."""
        self.was_away = asyncio.Event()
        self.fails_every = 50
        self.faults: list[str] = []

    def note_done(self, task: int, number: int) -> None:
        self.done[task].add(number)
        self.times += 1

    def note_written(self, task: int, number: int, records: int) -> None:
        if records != number or not self.done[task].issuperset(range(1, number + 1)):
            self.faults.append(f"task {task}: {number} is recorded ({records} records), and not all before it is done")
        self.written[task].append(number)

    def check(self) -> None:
        """Check that no record is lost, no position goes back, and each start begins behind a recorded one."""
        assert self.faults == []
        for task in range(TASKS):
            assert self.done[task] == set(range(1, COUNT + 1))
            assert self.written[task] == sorted(self.written[task])
            assert self.written[task][-1] == COUNT
            assert set(self.begun[task]) <= {0, *self.written[task]}


KEPT: list[Kept] = []
"""The history of the current run."""


@pytest.fixture
def kept() -> Iterator[Kept]:
    KEPT.append(Kept())
    yield KEPT[-1]
    KEPT.clear()


class Noting(MemoryProvider):
    """Notes each write, and is away for some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        if name not in self.known:
            self.known.add(name)
            ledger.write = self.noting(ledger.write, int(name[-1]))  # type: ignore[method-assign]
        return ledger

    def noting(self, write: Any, task: int) -> Any:
        async def noted(changes: Mapping[str, Any]) -> None:
            kept = KEPT[-1]
            kept.writes += 1
            await asyncio.sleep(0.001)
            if kept.writes in kept.away:
                kept.was_away.set()
                raise StateUnavailable("the store is away")
            await write(changes)
            kept.note_written(task, *changes["flow"][2:])

        return noted


class Numbers(FlowProducer):
    """Yields the numbers from 1 on, with the index of the task."""

    def records(self, after: Any) -> Iterator[tuple[int, tuple[int, int]]]:
        task = self.context.task_index
        KEPT[-1].begun[task].append(after or 0)
        for number in range((after or 0) + 1, COUNT + 1):
            yield number, (task, number)


class Work(FlowControlBolt):
    """Takes a millisecond per record, and fails some records."""

    def prepare(self) -> None:
        self.seen = 0

    async def process(self, record: tuple[int, int]) -> None:
        await asyncio.sleep(0.001)
        self.seen += 1
        if self.seen % KEPT[-1].fails_every == 0:
            raise FailTuple("now and then")
        KEPT[-1].note_done(*record)


def flowing() -> Topology:
    builder = TopologyBuilder("flowing")
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(), EAGER), parallelism=TASKS)
    builder.set_bolt("work", Work, parallelism=3).direct_grouping("numbers")
    return builder.build()


CONFIG = Config(
    state_provider="tests.flow.test_restarts:Noting", on_error="restart", max_task_restarts=1000, message_timeout_secs=2, acker_executors=2
)


@pytest.mark.guarantee("FC-3", "FC-6")
@pytest.mark.parametrize("victim", ["numbers", "work", ACKER])
def test_deaths_of_any_tasks_lose_no_record(victim: str, kept: Kept) -> None:
    deaths = [KillTask(victim, index, at_secs=at) for index, at in ((0, 0.05), (1, 0.2), (0, 0.21), (1, 0.4), (0, 0.6))]
    finished = run_topology(flowing(), CONFIG, faults=deaths)
    assert (finished.state, len(finished.strikes)) == ("complete", len(deaths))
    kept.check()
    assert all(len(begun) == (1 if victim != "numbers" else 3) for begun in kept.begun), "a kill during a pause only extends it"


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("seed", range(20))
def test_random_deaths_of_all_kinds_lose_no_record(seed: int, kept: Kept) -> None:
    draws = random.Random(seed)
    victims = {"numbers": TASKS, "work": 3, ACKER: 2}
    names = draws.choices(list(victims), k=12)
    deaths = [KillTask(name, draws.randrange(victims[name]), at_secs=draws.uniform(0.001, 1.0)) for name in names]
    kept.away = range(first := draws.randrange(3, 40), first + draws.randrange(6))
    finished = run_topology(flowing(), CONFIG, faults=deaths, seed=seed, shuffle=True)
    assert finished.state == "complete"
    kept.check()


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("away", [1, 2, 4])
def test_the_position_does_not_go_back_when_a_spout_dies_during_an_outage_of_its_store(away: int, kept: Kept) -> None:
    kept.away = range(5, 5 + away)

    async def kills(run: Run) -> None:
        await kept.was_away.wait()
        for task_id in run.task_ids("numbers"):
            run.kill_task(task_id)

    finished = run_topology(flowing(), CONFIG, during=kills)
    assert finished.state == "complete"
    assert finished.snapshot.components["numbers"].restarts == TASKS
    kept.check()


@pytest.mark.guarantee("FC-6")
def test_a_spout_that_raises_stores_its_position_before_it_is_replaced(kept: Kept) -> None:
    finished = run_topology(flowing(), CONFIG, faults=[RaiseError("numbers", at_call=300), RaiseError("numbers", at_call=5, method="ack")])
    assert finished.state == "complete"
    kept.check()
    again = [number for begun in kept.begun for number in begun[1:]]
    assert len(again) == 2
    assert min(again) > 0


@pytest.mark.guarantee("FC-6")
def test_all_tasks_of_the_bolt_may_die_at_once(kept: Kept) -> None:
    deaths = [KillTask("work", index, at_secs=at) for at in (0.1, 0.2, 0.3) for index in range(3)]
    finished = run_topology(flowing(), CONFIG, faults=deaths)
    assert finished.state == "complete"
    kept.check()
    flows = finished.snapshot.flow
    assert sum(task.resends for flow in flows for task in flow.tasks) > 0
    assert all(flow.records_since_checkpoint == 0 for flow in flows)


@pytest.mark.guarantee("FC-6")
def test_after_the_death_of_a_spout_only_its_sent_records_are_repeated(kept: Kept) -> None:
    kept.fails_every = COUNT * TASKS
    sent_beyond: list[int] = []

    async def kills(run: Run) -> None:
        await asyncio.sleep(0.2)
        sent_beyond.extend(flow.records_since_checkpoint for flow in run.snapshot().flow)
        for task_id in run.task_ids("numbers"):
            run.kill_task(task_id)

    finished = run_topology(flowing(), CONFIG, during=kills)
    assert finished.state == "complete"
    kept.check()
    assert 0 < kept.times - TASKS * COUNT <= sum(sent_beyond)
