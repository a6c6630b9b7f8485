"""What a run waits for is said everywhere: a late checkpoint, a commit that is repeated, a recovery, an outage (EO-3, EO-10, SV-11)."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

import engine
from engine import BasicBolt, Config, Run, Snapshot, Topology, TopologyBuilder, Tuple
from engine.cli import snapshot_text
from engine.metrics import render
from engine.runtime.bottleneck import find_bottleneck
from engine.runtime.metric_families import families
from engine.testing import run_topology, run_virtual
from engine.web import app
from tests.checkpoint.scenarios.kit import Numbers, PassOn, Tally, Told, once

OUTAGE_SECS = 300
ROWS = 40


@dataclass
class Moment:
    """What is seen of a run at one moment."""

    snapshot: Snapshot
    status: int
    error: str
    """Answer of `/readyz`."""
    gauges: dict[str, float]
    shown: str
    """The sentence about the limit, and the lines of `top`."""


async def look(run: Run) -> Moment:
    transport = httpx.ASGITransport(app(run))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/readyz")
    now = run.snapshot()
    lines = [line for line in render(families(now)).splitlines() if line.startswith("stormcell_checkpoint_") and "step" not in line]
    gauges = {line.split("{")[0].removeprefix("stormcell_checkpoint_"): float(line.split()[-1]) for line in lines}
    shown = "\n".join([find_bottleneck(None, now).text, *snapshot_text.state_texts(None, now)])
    return Moment(now, answer.status_code, answer.json().get("error", ""), gauges, shown)


def outage(bolt: Any = PassOn, count: Callable[[Told], Any] = Tally, *, burst: int = 1, **config: Any) -> tuple[Moment, Moment]:
    """Run `numbers` > `p` > `count` to its end. Return what is seen 60 s before an outage ends, and 60 s after it. Rows count once.

    burst: rows that the spout emits every 10 s.
    """
    told = Told()

    def topology() -> Topology:
        builder = TopologyBuilder("late")
        builder.set_spout("numbers", partial(Numbers, ROWS * burst, pace_secs=10, burst=burst))
        builder.set_bolt("p", bolt).shuffle_grouping("numbers")
        builder.set_bolt("count", partial(count, told)).shuffle_grouping("p")
        return builder.build()

    async def main() -> tuple[Moment, Moment]:
        async with engine.run(topology(), Config(message_timeout_secs=1000, seed=1, **config)) as run:
            await asyncio.sleep(OUTAGE_SECS - 60)
            meanwhile = await look(run)
            await asyncio.sleep(120)
            later = await look(run)
            await run.completed()
            return meanwhile, later

    seen: tuple[Moment, Moment] = run_virtual(main)
    assert told.counts() == once(ROWS * burst)
    return seen


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.name == "engine.runtime" and record.levelno == logging.WARNING]
    return [text for text in texts if "waiting for" in text or "goes on" in text]


class CommitsLate(Tally):
    """Cannot commit elsewhere in the outage."""

    def pre_commit(self, txid: int) -> None:
        if 20 < self.context.clock.now() < OUTAGE_SECS:
            raise ConnectionError("the sink does not answer")


@pytest.mark.guarantee("EO-3", "EO-10", "SV-11")
def test_a_commit_that_is_repeated_is_named_everywhere_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    meanwhile, later = outage(count=CommitsLate)

    checkpoint = meanwhile.snapshot.checkpoint
    assert checkpoint.held == "the checkpoint takes longer than 10 s"
    assert checkpoint.since_commit_secs > 200
    assert (meanwhile.status, later.status) == (503, 200)
    for text in (meanwhile.error, meanwhile.shown):
        assert "waiting for pre_commit() of bolt 'count' (pre_commit(" in text
        assert "which raised ConnectionError: the sink does not answer) for 2" in text
    assert "The spouts wait, because the checkpoint takes longer than 10 s. The step 'commit' has taken" in meanwhile.shown
    assert (meanwhile.gauges["holds_sources"], later.gauges["holds_sources"]) == (1, 0)
    assert meanwhile.gauges["since_commit_seconds"] > 200 > later.gauges["since_commit_seconds"]
    assert len(told(caplog)) == 4
    assert later.snapshot.waits == ()


class TakesLong(PassOn):
    """Takes until the end of the outage for one row."""

    async def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 2:
            await asyncio.sleep(OUTAGE_SECS - self.context.clock.now())
        return super().execute(tup)


@pytest.mark.guarantee("EO-3", "EO-10", "SV-11")
def test_a_checkpoint_that_waits_for_an_input_is_named_with_the_bolt(caplog: pytest.LogCaptureFixture) -> None:
    meanwhile, later = outage(TakesLong)
    assert meanwhile.snapshot.checkpoint.held == "the checkpoint takes longer than 10 s"
    assert (meanwhile.status, later.status) == (503, 200)
    assert "waiting for a checkpoint (p[2] has not passed on the barrier) for" in meanwhile.error
    assert len(told(caplog)) == 4
    assert told(caplog)[0].startswith("'late' has been waiting for a checkpoint (p[2] has not passed on the barrier) for 1")


@pytest.mark.guarantee("EO-3")
def test_a_checkpoint_is_late_after_two_intervals_if_they_are_longer_than_ten_seconds() -> None:
    held: list[str | None] = []

    class Looks(TakesLong):
        async def execute(self, tup: Tuple) -> Any:
            if tup["n"] == 2:
                for secs in (100, 30):
                    await asyncio.sleep(secs)
                    held.append(None if (now := runs[0].snapshot().checkpoint).held is None else f"{now.step}: {now.held}")
            return PassOn.execute(self, tup)

    runs: list[Run] = []
    began = engine.run

    def noted(*arguments: Any, **named: Any) -> Run:
        runs.append(began(*arguments, **named))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run", noted)
        outage(Looks, state_checkpoint_interval_ms=45_000)
    assert held == [None, "prepare: the checkpoint takes longer than 90 s"]


class StartsLate(Tally):
    """A fresh instance gets its state only when the outage is over."""

    started = 0

    async def prepare(self) -> None:  # type: ignore[override]
        StartsLate.started += 1
        if StartsLate.started > 1:
            await asyncio.sleep(max(OUTAGE_SECS - self.context.clock.now(), 0))

    def execute(self, tup: Tuple) -> None:
        if tup["n"] == 2 and StartsLate.started == 1:
            raise MemoryError("the instance dies")
        super().execute(tup)


@pytest.mark.guarantee("EO-10", "SV-11")
def test_a_recovery_that_takes_long_is_named_with_its_reason() -> None:
    StartsLate.started = 0
    meanwhile, later = outage(count=StartsLate, on_error="restart")
    assert meanwhile.snapshot.checkpoint.held == "the states go back to the last commit"
    assert (meanwhile.status, later.status) == (503, 200)
    assert "waiting for the states to go back to the last commit" in meanwhile.error
    assert "the spouts wait, because the states go back to the last commit" in meanwhile.shown.lower()


class FailsAll(PassOn):
    """Fails each row in the outage."""

    def execute(self, tup: Tuple) -> Any:
        if 20 < self.context.clock.now() < OUTAGE_SECS:
            raise ConnectionError("the service does not answer")
        return super().execute(tup)


@pytest.mark.guarantee("EO-6", "EO-10", "SV-11")
def test_an_outage_of_a_component_is_named_and_not_logged_at_each_pass(caplog: pytest.LogCaptureFixture) -> None:
    meanwhile, later = outage(FailsAll, burst=10)  # a single row would be given up
    assert (meanwhile.status, later.status) == (503, 200)
    for text in (meanwhile.error, meanwhile.shown):
        assert "waiting for the end of an outage (10 rows failed" in text
        assert "the service does not answer" in text
    assert len(told(caplog)) == 4
    passes = [record for record in caplog.records if record.name == "engine.checkpoint" and "the interval" in record.getMessage()]
    assert len(passes) == 2
    assert later.snapshot.checkpoint.held is None


class Odd(PassOn):
    """Raises once for the row 3, and always for the row 5."""

    raised = 0

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] == 3 and not Odd.raised:
            Odd.raised += 1
            raise ValueError("once")
        if tup["n"] == 5:
            raise ValueError("always")
        return super().execute(tup)


class Takes(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        """Take what was diverted."""


@pytest.mark.guarantee("EO-10", "SV-13", "SV-14")
def test_retries_diverted_and_given_up_rows_of_each_component_are_shown() -> None:
    def finished(count: Any, **settings: Any) -> Snapshot:
        Odd.raised, builder = 0, TopologyBuilder("odd")
        builder.set_spout("numbers", partial(Numbers, 10))
        builder.set_bolt("p", Odd, **settings).shuffle_grouping("numbers")
        builder.set_bolt("count", count).shuffle_grouping("p")
        if "on_error" in settings:
            builder.set_bolt("sink", Takes).shuffle_grouping("p", stream="failed")
        return run_topology(builder.build(), Config(state_checkpoint_interval_ms=100)).snapshot

    diverting = finished(Told().create, retries=2, on_error="divert")
    assert (diverting.components["p"].retries, diverting.components["p"].diverted) == (3, 1)
    assert "handled p retries 3, diverted 1" in snapshot_text.state_texts(None, diverting)

    giving_up = finished(Told().create)
    assert giving_up.components["numbers"].given_up == 1
    assert giving_up.to_dict()["components"]["numbers"]["given_up"] == 1
    assert "handled numbers given up 1" in snapshot_text.state_texts(None, giving_up)
    assert 'stormcell_given_up_tuples_total{topology="odd",component="numbers",task="1"} 1' in render(families(giving_up))
