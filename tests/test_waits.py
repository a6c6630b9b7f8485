"""Long waits for something outside: they are logged once, named everywhere, and the run is not ready meanwhile (SV-11)."""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from itertools import count

import httpx
import pytest

import engine
from engine import Config, KeyValueState, Snapshot, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, spout
from engine.api import TaskContext
from engine.cli import snapshot_text
from engine.clock import Clock
from engine.metrics import render
from engine.runtime.bottleneck import find_bottleneck
from engine.runtime.metric_families import families
from engine.runtime.snapshot_json import snapshot_from_dict
from engine.state import Ledger
from engine.state.memory import MemoryProvider
from engine.testing import run_virtual
from engine.transactional import Admitted
from engine.waits import LONG_SECS, LongWait, Waits, waiting_for
from engine.web import app
from tests.transactional.batch_topologies import Batches, Store, Stores, Sums, summing

pytestmark = pytest.mark.guarantee("SV-11")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "engine.runtime" and record.levelno == logging.WARNING]


def test_a_long_wait_is_logged_at_growing_intervals_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[tuple[LongWait, ...]]:
        waits = Waits("orders", Clock.of(asyncio.get_running_loop()))
        seen = []
        with waits.current():
            with waiting_for("the store"), waiting_for("the store"), waiting_for("quiet", logs=False):
                await asyncio.sleep(LONG_SECS - 1)
                with waiting_for("something short"):
                    seen.append(waits.long_waits())
                await asyncio.sleep(59)
                seen.append(waits.long_waits())
            await asyncio.sleep(60)
            seen.append(waits.long_waits())
        return seen

    assert run_virtual(main) == [(), (LongWait("the store", 63.0), LongWait("quiet", 63.0)), ()]
    assert told(caplog) == [
        "'orders' has been waiting for the store for 5 s",
        "'orders' has been waiting for the store for 20 s",
        "'orders' goes on: it has waited 63 s for the store",
    ]


def test_a_wait_of_a_day_is_logged_each_hour(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with Waits("orders", Clock.of(asyncio.get_running_loop())).current(), waiting_for("the store"):
            await asyncio.sleep(24 * 3600)

    run_virtual(main)
    lengths = [int(text.removesuffix(" s").split()[-1]) for text in told(caplog)[:-1]]
    assert lengths[:5] == [5, 20, 80, 320, 1280]
    assert {after - before for before, after in itertools.pairwise(lengths[5:])} == {3600}


def test_a_wait_gives_way_to_its_reason_and_names_what_is_known(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[tuple[LongWait, ...]]:
        waits, seen = Waits("orders", Clock.of(asyncio.get_running_loop())), []
        with waits.current(), waiting_for("a checkpoint", long_secs=20, detail=lambda: f"round {len(seen)}", yields=True):
            for secs, what in ((19, ()), (2, ()), (6, ("the store",)), (1, ())):
                with contextlib.ExitStack() as reasons:
                    for each in what:
                        reasons.enter_context(waiting_for(each))
                    await asyncio.sleep(secs)
                    seen.append(waits.long_waits())
        return seen

    nothing, checkpoint, store, again = run_virtual(main)
    assert (nothing, checkpoint) == ((), (LongWait("a checkpoint (round 1)", 21.0),))
    assert (store, again) == ((LongWait("the store", 6.0),), (LongWait("a checkpoint (round 3)", 28.0),))
    assert told(caplog)[0] == "'orders' has been waiting for a checkpoint (round 1) for 20 s"


def test_many_short_waits_are_no_long_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> tuple[LongWait, ...]:
        waits = Waits("orders", Clock.of(asyncio.get_running_loop()))
        with waits.current():
            for _ in range(60):  # one of them is open at each moment
                ending = asyncio.create_task(short())
                await asyncio.sleep(0.9)
            found = waits.long_waits()
            await ending
        return found

    async def short() -> None:
        with waiting_for("Kafka"):
            await asyncio.sleep(1)

    assert run_virtual(main) == ()
    assert told(caplog) == []


def test_a_wait_outside_of_a_run_has_no_effect() -> None:
    with waiting_for("a store that a tool reads"):
        """No run is there to tell."""


class Hangs(MemoryProvider):
    """A store that hangs for 100 s at the second write."""

    def __init__(self) -> None:
        super().__init__()
        self._writes = count(1)

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        if "write" in vars(ledger):
            return ledger
        written, writes = ledger.write, self._writes

        async def write(changes: Mapping[str, object]) -> None:
            if next(writes) == 2:
                await asyncio.sleep(100)
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


class HangsAtOpen(MemoryProvider):
    async def open(self, topology_name: str) -> None:
        await asyncio.sleep(100)


class HangingCommit(Stores):
    """A committer whose database hangs at the first batch."""

    async def finish_batch(self) -> None:  # type: ignore[override]
        if self.attempt.txid == 1:
            await asyncio.sleep(100)
        super().finish_batch()


class SlowWork(Sums):
    """Works long for the first batch, which only its author can judge."""

    async def finish_batch(self) -> None:  # type: ignore[override]
        if self.attempt.txid == 1:
            await asyncio.sleep(100)
        super().finish_batch()


class Behind:
    """An admission of a consumer that is behind for 100 s."""

    async def open(self, context: TaskContext, component_id: str) -> "Behind":
        self.now = context.clock.now
        self.until = self.now() + 100
        return self

    async def admitted(self, txid: int) -> Admitted:
        return Admitted(None if self.now() >= self.until else 0, "consumer 'per-minute' is 16 batches behind")

    async def close(self) -> None:
        """Nothing is open."""


class HeldBack(Stores):
    admission = Behind()


class Counts(StatefulBasicBolt):
    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put("n", tup["n"])


class HangingHook(Counts):
    has_hung = False

    async def pre_commit(self, txid: int) -> None:  # type: ignore[override]
        if not HangingHook.has_hung:
            HangingHook.has_hung = True
            await asyncio.sleep(100)


@spout("n")
async def numbers() -> AsyncIterator[tuple[int]]:
    for number in range(300):
        await asyncio.sleep(1)
        yield (number,)


def counting(bolt: type[StatefulBasicBolt]) -> Topology:
    builder = TopologyBuilder("counting")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolt).fields_grouping("numbers", "n")
    return builder.build()


def batches(committer: type[Stores], sums: type[Sums] = Sums) -> Topology:
    store = Store()
    topology: Topology = summing(Batches([[1], [2]]), store, sums=sums, tasks=1, stores=lambda: committer(store))
    return topology


HERE = "tests.test_waits"


@pytest.mark.parametrize(
    ("topology", "provider", "what", "logs"),
    [
        (batches(HangingCommit), "memory://", "the commit of batch 1", 4),
        (batches(HeldBack), "memory://", "permission to begin a batch: consumer 'per-minute' is 16 batches behind", 0),
        (batches(Stores, SlowWork), "memory://", None, 0),
        (counting(Counts), f"{HERE}:Hangs", f"the state store ({HERE})", 4),
        (counting(HangingHook), "memory://", "pre_commit() of bolt 'count'", 4),
        (batches(Stores), f"{HERE}:Hangs", "the store of the transactions", 4),
    ],
)
def test_a_wait_for_something_outside_is_named_everywhere(
    topology: Topology, provider: str, what: str | None, logs: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> tuple[Snapshot, tuple[int, str], Snapshot, tuple[int, str]]:
        run = engine.run(topology, Config(state_provider=provider, message_timeout_secs=600, seed=1))
        run.may_forget = True
        async with run:
            await asyncio.sleep(60)
            hung, hung_status = run.snapshot(), await readiness(run)
            if run.state == "running":
                await asyncio.sleep(60)
            return hung, hung_status, run.snapshot(), await readiness(run)

    hung, (status, error), later, _ = run_virtual(main)
    assert later.waits == ()
    assert len([text for text in told(caplog) if "wait" in text]) == logs
    if what is None:
        assert (hung.waits, status) == ((), 200)
        return
    assert [wait.what for wait in hung.waits] == [what]
    assert 50 < hung.waits[0].secs <= 60
    assert (status, f"waiting for {what}" in error) == (503, True)
    found = find_bottleneck(None, hung)
    assert found.kind == "wait"
    assert f"has been waiting for {what} for" in found.text
    assert what in snapshot_text.limit_words(found)
    assert snapshot_from_dict(json.loads(json.dumps(hung.to_dict()))).waits[0].what == what
    assert "stormcell_longest_wait_seconds" in render(families(hung))


async def readiness(run: engine.Run) -> tuple[int, str]:
    transport = httpx.ASGITransport(app(run))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/readyz")
        return answer.status_code, answer.json().get("error", "")


def test_a_start_that_waits_for_its_store_says_so() -> None:
    async def main() -> str:
        run = engine.run(counting(Counts), Config(state_provider=f"{HERE}:HangsAtOpen"))
        entering = asyncio.create_task(run.__aenter__())
        await asyncio.sleep(60)
        text = find_bottleneck(None, run.snapshot()).text
        await run.stop()
        await entering
        return text

    assert run_virtual(main) == f"The run has been waiting for the state store ({HERE}) for 60 s."


class HangsOnce(Stores):
    """A committer whose database hangs at the first try of the first batch."""

    has_hung = False

    async def finish_batch(self) -> None:  # type: ignore[override]
        if not HangsOnce.has_hung:
            HangsOnce.has_hung = True
            await asyncio.sleep(100)
        super().finish_batch()


@pytest.mark.parametrize("committer", [HangsOnce, HeldBack])
@pytest.mark.parametrize("end", ["kill_task", "restart_task"])
def test_a_wait_ends_with_the_coordinator_that_waits(committer: type[Stores], end: str) -> None:
    HangsOnce.has_hung = False

    async def main() -> tuple[tuple[LongWait, ...], ...]:
        run = engine.run(batches(committer), Config(message_timeout_secs=600, seed=1))
        async with run:
            await asyncio.sleep(10)
            before = run.waits
            (coordinator,) = (task for each in run.snapshot().components.values() if each.kind == "spout" for task in each.tasks)
            getattr(run, end)(coordinator.task_id)
            await run.completed()
            await asyncio.sleep(10)
            return before, run.waits

    before, after = run_virtual(main)
    assert len(before) == 1
    assert after == ()
