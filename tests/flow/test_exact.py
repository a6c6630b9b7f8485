"""Flow control in front of a state: each record counts exactly once, and is sent again only after a rollback (EO-1, EO-6, FC-6)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import Config, FlowControlBolt, FlowControlSpout, FlowSettings, Run, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.flow.feature import FlowEntry
from engine.flow.status import FlowSnapshot
from engine.testing import Fault, Finished, KillTask, run_topology
from tests.flow.flow_topologies import AsyncNumbers, Numbers

pytestmark = pytest.mark.guarantee("EO-1")
RECORDS = 600
PRODUCERS = [Numbers, AsyncNumbers]


class Works(FlowControlBolt):
    """Takes a millisecond for each record, and raises for the bad ones as often as they say."""

    output_fields = "number"

    def __init__(self, bad: Counter[int], calls: Counter[int]) -> None:
        self.bad, self.calls = bad, calls

    async def process(self, record: int) -> tuple[int]:
        self.calls[record] += 1
        await asyncio.sleep(0.001)
        if self.bad[record]:
            self.bad[record] -= 1
            raise ValueError(f"{record} is bad")
        return (record,)


class Play:
    """Plays numbers → works → count, and keeps the counts of the state and the calls of the bolt."""

    def __init__(self, *, bad: dict[int, int] | None = None, refused: dict[int, int] | None = None) -> None:
        """bad, refused: number of times that a record fails, in `works` or in `count`."""
        self.bad, self.refused = Counter(bad), Counter(refused)
        self.calls: Counter[int] = Counter()
        self.by_task: dict[int, Counter[int]] = {}
        self.begun_behind: list[Any] = []

    @property
    def counts(self) -> Counter[int]:
        return sum(self.by_task.values(), Counter())

    def count(self) -> StatefulBasicBolt:
        play = self

        class Count(StatefulBasicBolt):
            def execute(self, tup: Tuple) -> None:
                self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
                if play.refused[tup[0]]:
                    play.refused[tup[0]] -= 1
                    raise ValueError("refused")

            def cleanup(self) -> None:
                if hasattr(self, "state"):
                    play.by_task[self.context.task_index] = Counter(dict(self.state.items()))

        return Count()

    def run(
        self,
        producer: Callable[..., Numbers] = Numbers,
        records: int = RECORDS,
        *,
        url: str = "memory://",
        faults: list[Fault] | None = None,
        during: Any = None,
    ) -> Finished:
        builder = TopologyBuilder("flowing")
        settings = FlowSettings(pack_records=20, pack_ms=10)
        builder.set_spout("numbers", lambda: FlowControlSpout(producer(records, self.begun_behind), settings))
        builder.set_bolt("works", lambda: Works(self.bad, self.calls), parallelism=3).direct_grouping("numbers")
        builder.set_bolt("count", self.count, parallelism=2).fields_grouping("works", "number")
        config = Config(state_provider=url, state_checkpoint_interval_ms=50)
        return run_topology(builder.build(), config, faults=faults or [], during=during)


def once(records: int = RECORDS) -> Counter[int]:
    return Counter(range(1, records + 1))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_without_failures_each_record_is_processed_once(producer: Any) -> None:
    play = Play()

    finished = play.run(producer)

    assert finished.state == "complete"
    assert play.counts == once()
    assert play.calls == once(), "no record is sent twice"
    assert play.begun_behind == [None]


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_next_run_continues_behind_the_position_of_the_checkpoint(producer: Any, tmp_path: Path) -> None:
    play, url = Play(), f"sqlite:///{tmp_path}/s.db"

    play.run(producer, 200, url=url)
    play.run(producer, url=url)

    assert play.begun_behind == [None, 200]
    assert play.counts == play.calls == once()


@pytest.mark.guarantee("EO-5")
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("component", ["numbers", "count"])
def test_the_death_of_a_task_doubles_nothing(component: str, producer: Any) -> None:
    play = Play()

    finished = play.run(producer, faults=[KillTask(component, at_secs=0.12), KillTask(component, at_secs=0.2)])

    assert finished.state == "complete"
    assert play.counts == once()
    assert len(play.begun_behind) >= 3


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("where", ["bad", "refused"])
def test_a_failed_pack_is_repeated_with_its_interval_only(where: str, producer: Any) -> None:
    """Given a record whose neighbours in the pack have been counted, when it fails, then they do not count twice."""
    play = Play(**{where: {250: 1, 431: 2}})

    finished = play.run(producer)

    assert finished.state == "complete"
    assert play.counts == once()
    assert max(play.calls.values()) <= 5


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("where", ["bad", "refused"])
def test_a_record_that_always_fails_is_given_up_without_its_neighbours(where: str) -> None:
    play = Play(**{where: {250: 1000}})

    finished = play.run()

    assert play.counts == once() - Counter([250])
    assert play.calls[250] <= 4, "three passes, and one in which nobody knew which record of the pack it was"
    [report] = [error.text for error in finished.errors if "given up" in error.text]
    assert report.startswith("GaveUp: spout 'numbers': the row ((250,),) failed in 3 passes, and was given up")


def test_the_snapshot_shows_the_committed_position() -> None:
    shown: list[FlowSnapshot] = []

    async def script(run: Run) -> None:
        while run.state == "running":
            await asyncio.sleep(0.01)
            entry = run.snapshot().entry(FlowEntry)
            assert entry is not None
            shown.extend(entry.value)

    Play().run(during=script)

    positions = [int(each.position) for each in shown if each.position is not None]
    assert positions == sorted(positions)
    assert positions[0] < positions[-1] == RECORDS
    assert shown[-1].records_since_checkpoint == 0
    assert all(each.records_since_checkpoint == 0 or each.done_records <= RECORDS for each in shown)
