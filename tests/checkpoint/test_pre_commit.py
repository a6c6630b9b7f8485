"""`pre_commit` is repeated until it succeeds, so what it commits elsewhere is never lost (CP-4)."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from engine import ComponentError, Config, FatalError, Run, Spout, StatefulBolt, TopologyBuilder, Tuple
from engine.checkpoint.feature import CheckpointEntry
from engine.testing import Finished, KillTask, run_topology
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider

pytestmark = pytest.mark.guarantee("CP-4")
OnError = Literal["restart", "fail"]


class Numbers(Spout):
    """Emits a number every 10 ms."""

    output_fields = "number"

    def open(self) -> None:
        self.number = 0

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.01)
        self.number += 1
        self.collector.emit((self.number,), message_id=self.number)


@dataclass
class Elsewhere:
    """Another system, to which `pre_commit` commits, and the calls of the bolts. It outlives the process of the run."""

    refuses: dict[int, float] = field(default_factory=dict)
    """How many more commits of a txid it refuses."""
    hangs: set[int] = field(default_factory=set)
    """Txids at which the next commit hangs."""
    committed: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def commit(self, txid: int) -> None:
        """Commit a txid. Raises if it refuses."""
        self.calls.append(f"pre_commit({txid})")
        if txid in self.hangs:
            self.hangs.remove(txid)
            await asyncio.Event().wait()
        if self.refuses.get(txid, 0) > 0:
            self.refuses[txid] -= 1
            raise ConnectionError("elsewhere is away")
        self.committed.append(txid)


class Count(StatefulBolt):
    """Counts, and commits its txids elsewhere."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.elsewhere = elsewhere

    def init_state(self, state: Any) -> None:
        self.counts = state
        self.elsewhere.calls.append("init_state")

    def execute(self, tup: Tuple) -> None:
        if self.elsewhere.calls[-1] != "execute":
            self.elsewhere.calls.append("execute")
        self.counts.put(tup["number"], 1)
        self.collector.ack(tup)

    async def pre_commit(self, txid: int) -> None:
        await self.elsewhere.commit(txid)


class CountPlainly(Count):
    """Does the same in a plain hook."""

    def pre_commit(self, txid: int) -> None:  # type: ignore[override]
        commit = self.elsewhere.commit(txid)
        try:
            commit.send(None)
        except StopIteration:
            commit.close()


DISKS = pytest.mark.parametrize("resident", [False, True])


@pytest.fixture(autouse=True)
def disk() -> Iterator[Disk]:
    """Return a disk that survives the runs of the test."""
    disk = Disk()
    yield disk
    IN_USE.clear()


def run_counts(
    elsewhere: Elsewhere,
    disk: Disk | None = None,
    *,
    bolt: type[Count] = Count,
    secs: float = 30.0,
    tasks: int = 1,
    resident: bool = False,
    during: Any = None,
    faults: Any = (),
    **config: Any,
) -> Finished:
    builder = TopologyBuilder("counting")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("count", lambda: bolt(elsewhere), parallelism=tasks).fields_grouping("numbers", "number")
    IN_USE["disk"] = SlowProvider(disk or Disk(), Conditions(random.Random(1)), resident=resident)
    settings = Config(state_provider="tests.checkpoint.slow_store:provider?disk", **config)
    return run_topology(builder.build(), settings, until=None if during else secs, during=during, faults=faults, limit_secs=2 * secs)


@pytest.mark.parametrize("on_error", ["restart", "fail"])
@pytest.mark.parametrize("bolt", [Count, CountPlainly])
def test_a_pre_commit_that_raises_is_repeated_until_it_succeeds(bolt: type[Count], on_error: OnError) -> None:
    elsewhere = Elsewhere(refuses={3: 4})
    finished = run_counts(elsewhere, bolt=bolt, on_error=on_error)

    assert elsewhere.committed == list(range(elsewhere.committed[-1] + 1))
    assert elsewhere.committed[-1] >= 20
    first = elsewhere.calls.index("pre_commit(3)")
    assert elsewhere.calls[first : first + 6] == ["pre_commit(3)"] * 5 + ["execute"]  # the inputs wait
    checkpoints = finished.snapshot.checkpoint
    assert checkpoints is not None
    assert checkpoints.recoveries == 0
    assert [report.next_step for report in finished.errors] == [
        f"pre_commit(3) is called again in {secs:g} s, until it succeeds; the inputs wait" for secs in (0.5, 1, 2, 4)
    ]
    assert finished.snapshot.components["numbers"].failed == 0


def test_a_pre_commit_that_hangs_is_cancelled_and_repeated() -> None:
    elsewhere = Elsewhere(hangs={3})
    finished = run_counts(elsewhere, checkpoint_timeout_secs=5)

    assert elsewhere.committed == list(range(elsewhere.committed[-1] + 1))
    assert "pre_commit() did not return within 5 s" in finished.errors[0].text
    assert elsewhere.calls.count("pre_commit(3)") == 2


def test_the_snapshot_tells_which_task_repeats_a_hook() -> None:
    waits: list[str] = []

    async def look(run: Run) -> None:
        await asyncio.sleep(12)
        now = run.snapshot().entry(CheckpointEntry).value
        assert now is not None
        waits.extend(now.waits_for)
        await run.stop()

    run_counts(Elsewhere(refuses={3: 1e9}), during=look)
    assert waits == ["count[2] repeats pre_commit(3), which raised ConnectionError: elsewhere is away"]


def test_a_fresh_instance_repeats_the_pre_commit_of_its_predecessor_after_init_state() -> None:
    elsewhere = Elsewhere(refuses={3: 4})
    run_counts(elsewhere, faults=[KillTask("count", at_secs=5.2)])

    assert elsewhere.committed == list(range(elsewhere.committed[-1] + 1))
    again = elsewhere.calls.index("init_state", 1)
    assert set(elsewhere.calls[again - 2 : again]) == {"pre_commit(3)"}
    after = elsewhere.calls[again + 1 :]
    assert set(after[: after.index("execute")]) == {"pre_commit(3)"}


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("tasks", [1, 3])
def test_the_next_run_repeats_a_pre_commit_that_did_not_succeed(tasks: int, disk: Disk) -> None:
    elsewhere = Elsewhere(refuses={3: 1e9})
    run_counts(elsewhere, disk, secs=20)
    assert elsewhere.committed == [0, 1, 2]

    elsewhere.refuses, elsewhere.calls = {3: 2 * tasks}, []
    run_counts(elsewhere, disk, secs=20, tasks=tasks)

    before_data = elsewhere.calls[: elsewhere.calls.index("execute")]
    assert before_data[0] == "init_state"
    assert before_data.count("init_state") == tasks
    assert {*before_data} == {"init_state", "pre_commit(3)"}
    assert sorted(set(elsewhere.committed)) == list(range(elsewhere.committed[-1] + 1))
    assert elsewhere.committed.count(3) == tasks


@pytest.mark.guarantee("CP-7", "CP-10")
@DISKS
def test_runs_that_end_before_their_pre_commit_succeeds_keep_its_changes(resident: bool, disk: Disk) -> None:
    elsewhere = Elsewhere(refuses={3: 1e9})
    counts: list[int] = []

    class Tells(Count):
        def init_state(self, state: Any) -> None:
            super().init_state(state)
            counts.append(len(list(state.items())))

    for _ in range(4):
        run_counts(elsewhere, disk, bolt=Tells, secs=20, resident=resident)
    assert counts[0] == 0
    assert 300 <= counts[1] == counts[2] == counts[3]


@pytest.mark.guarantee("CP-4", "RUN-3")
@pytest.mark.parametrize(("way", "most_secs"), [("stop", 0.1), ("drain", 7.1)])
def test_a_stop_ends_the_repetition_at_once_and_a_drain_within_its_timeout(way: str, most_secs: float) -> None:
    took: list[float] = []

    async def end(run: Run) -> None:
        await asyncio.sleep(12)
        now = asyncio.get_running_loop().time
        began = now()
        await (run.stop() if way == "stop" else run.drain(7))
        took.append(now() - began)

    elsewhere = Elsewhere(refuses={3: 1e9})
    finished = run_counts(elsewhere, during=end)
    assert finished.state == {"stop": "stopped", "drain": "drained"}[way]
    assert took[0] <= most_secs
    assert elsewhere.committed == [0, 1, 2]


@pytest.mark.guarantee("CP-4", "SV-3")
def test_a_fatal_error_of_pre_commit_ends_the_run_and_the_next_run_repeats_it(disk: Disk) -> None:
    elsewhere = Elsewhere()

    class Ends(Count):
        async def pre_commit(self, txid: int) -> None:
            if txid == 2:
                raise FatalError("for good")
            await super().pre_commit(txid)

    with pytest.raises(ComponentError, match="for good"):
        run_counts(elsewhere, disk, bolt=Ends)
    run_counts(elsewhere, disk, secs=5)
    assert elsewhere.committed[:4] == [0, 1, 2, 3]
