"""Deaths at bad moments: too often, while an instance prepares, while the run closes."""

import asyncio
from collections.abc import Callable

import pytest

from engine import Bolt, ComponentError, Config, Run, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, Finished, KillTask, RaiseError, run_topology
from tests.runtime.stage import number_feeder


class SlowToPrepare(Bolt):
    """Takes a second to prepare."""

    prepared = 0

    async def prepare(self) -> None:
        await asyncio.sleep(1)
        type(self).prepared += 1

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


def one_bolt(feeder: Feeder, bolt: type[Bolt] | Capture) -> Topology:
    builder = TopologyBuilder("deaths")
    builder.set_spout("feed", feeder)
    builder.set_bolt("victim", bolt).shuffle_grouping("feed")
    return builder.build()


def three_kills(victim: str) -> list[KillTask]:
    return [KillTask(victim, at_secs=secs) for secs in (1, 2, 5)]


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize("victim", ["victim", "feed"])
def test_with_restart_a_task_that_is_killed_too_often_ends_the_run(victim: str) -> None:
    topology = one_bolt(number_feeder(3, max_retries=10), Capture(settles=False))
    with pytest.raises(ComponentError, match="died more than 2 times"):
        run_topology(topology, Config(max_task_restarts=2, on_error="restart"), faults=three_kills(victim), limit_secs=60)


@pytest.mark.guarantee("SV-3")
@pytest.mark.parametrize("victim", ["victim", "feed"])
def test_by_default_repeated_kills_do_not_end_the_run(victim: str) -> None:
    """The second and the third kill cause a pause. A bolt fails its inputs meanwhile. A spout emits its trees again later."""
    feeder = number_feeder(3, max_retries=10**9)
    finished = run_topology(one_bolt(feeder, Capture(settles=False)), faults=three_kills(victim), until=60)
    assert finished.state == "stopped"
    assert finished.snapshot.components[victim].restarts == len(finished.strikes) == 3
    assert finished.snapshot.components["feed"].pending == 3


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize("moments", [(0.5,), (2,), (0.2, 0.4, 2.5), (2, 2.5), (2, 2.5, 2.9), (2, 2, 2), (2, 3.00005)])
def test_an_instance_that_is_killed_while_it_prepares_is_replaced(moments: tuple[float, ...]) -> None:
    feeder = Feeder("number")
    SlowToPrepare.prepared = 0

    async def script(run: Run) -> None:
        await asyncio.sleep(10)
        feeder.feed((1,))
        feeder.close()

    faults = [KillTask("victim", at_secs=secs) for secs in moments]
    finished = run_topology(one_bolt(feeder, SlowToPrepare), faults=faults, during=script, limit_secs=60)
    assert finished.state == "complete"
    assert len(finished.strikes) == len(moments)
    assert SlowToPrepare.prepared >= 2
    assert finished.errors
    assert feeder.acked == [1]


def test_background_work_that_raises_while_its_instance_prepares_kills_the_instance() -> None:
    class Nervous(SlowToPrepare):
        instances = 0

        async def prepare(self) -> None:
            type(self).instances += 1
            if self.instances == 1:
                self.context.create_task(self.background())
            await super().prepare()

        async def background(self) -> None:
            raise OSError("no connection")

    feeder = number_feeder(1)
    finished = run_topology(one_bolt(feeder, Nervous), limit_secs=60)
    assert Nervous.instances == 2
    assert [report.text for report in finished.errors] == ["OSError: no connection"]
    assert feeder.acked == [1]


def test_background_work_that_raises_while_the_run_closes_does_not_delay_the_stop() -> None:
    class Stubborn(Bolt):
        def prepare(self) -> None:
            self.context.create_task(self.background())

        async def background(self) -> None:
            await asyncio.sleep(2)
            raise OSError("too late")

        async def execute(self, tup: Tuple) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(3)
                raise

    finished = run_topology(one_bolt(number_feeder(1), Stubborn), until=1, limit_secs=60)
    assert finished.state == "stopped"
    assert finished.secs < 10


@pytest.mark.guarantee("ACK-12")
def test_with_restart_a_bolt_that_raises_at_every_input_ends_the_run() -> None:
    feeder, always = number_feeder(10), [RaiseError("victim", at_call=range(1, 100))]
    with pytest.raises(ComponentError, match="died more than 5 times"):
        run_topology(one_bolt(feeder, SlowToPrepare), Config(on_error="restart"), faults=always, limit_secs=60)
    assert len(feeder.failed) <= 6


@pytest.mark.guarantee("SV-3")
def test_by_default_a_bolt_that_raises_at_every_input_does_not_end_the_run() -> None:
    feeder, always = number_feeder(50), [RaiseError("victim", at_call=range(1, 100))]
    finished = run_topology(one_bolt(feeder, SlowToPrepare), faults=always, limit_secs=60)
    assert finished.state == "complete"
    assert finished.snapshot.components["victim"].restarts == 0
    assert [failure.reason for _, failure in feeder.failed] == ["error"] * 50


@pytest.mark.guarantee("ACK-12")
def test_with_restart_deaths_with_progress_between_them_do_not_count() -> None:
    feeder, every_second = number_feeder(40), [RaiseError("victim", at_call=range(2, 100, 2))]
    finished = run_topology(one_bolt(feeder, SlowToPrepare), Config(on_error="restart"), faults=every_second, limit_secs=60)
    assert finished.snapshot.components["victim"].restarts == 20
    assert len(feeder.failed) == len(feeder.acked) == 20


@pytest.mark.guarantee("ACK-12")
def test_a_task_that_is_killed_before_its_first_step_is_replaced() -> None:
    first, second = number_feeder(1), number_feeder(2, max_retries=1)
    builder = TopologyBuilder("deaths")
    builder.set_spout("first", first)
    builder.set_spout("second", second)
    builder.set_bolt("sink", Capture()).shuffle_grouping("first").shuffle_grouping("second")
    finished = run_topology(builder.build(), faults=[KillTask("second", at_call=1, of="first")], limit_secs=60)
    assert finished.snapshot.components["second"].restarts == 1
    assert (first.acked, second.acked) == ([1], [1, 2])


@pytest.mark.guarantee("ACK-6")
def test_without_ackers_a_tuple_that_ack_emits_after_the_end_of_the_source_is_acked() -> None:
    class Receipts(Spout):
        output_fields = "number"
        acked: list[object] = []

        def next_tuple(self) -> None:
            if self.acked:
                raise SpoutExhausted
            self.collector.emit((0,), 0)
            raise SpoutExhausted

        def ack(self, message_id: object) -> None:
            assert isinstance(message_id, int)
            self.acked.append(message_id)
            if message_id < 3:
                self.collector.emit((message_id + 1,), message_id + 1)

    builder = TopologyBuilder("receipts")
    builder.set_spout("receipts", Receipts)
    builder.set_bolt("sink", Capture()).shuffle_grouping("receipts")
    assert run_topology(builder.build(), Config(acker_executors=0), limit_secs=60).state == "complete"
    assert Receipts.acked == [0, 1, 2, 3]


class KilledByItself(Bolt):
    """Is killed in the same step in which its work ends."""

    kill: Callable[[int], None]
    deaths = 0

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        self.collector.ack(tup)
        self.kill_once()

    def kill_once(self) -> None:
        if not type(self).deaths:
            type(self).deaths += 1
            type(self).kill(self.context.task_id)


def finished_by(bolt: type[KilledByItself]) -> Finished:
    async def script(run: Run) -> None:
        bolt.kill = run.kill_task
        feeder.feed_all([(1,), (2,)])
        feeder.close()

    feeder = Feeder("number", max_retries=1)
    builder = TopologyBuilder("deaths")
    builder.set_spout("feed", feeder)
    builder.set_bolt("victim", bolt, concurrency=2).shuffle_grouping("feed")
    finished = run_topology(builder.build(), during=script, limit_secs=60)
    assert sorted(feeder.acked, key=str) == [1, 2]
    return finished


@pytest.mark.guarantee("ACK-12")
def test_a_call_that_ends_when_its_instance_dies_is_not_reported_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    class Victim(KilledByItself):
        """Has its own count of deaths."""

    assert finished_by(Victim).snapshot.components["victim"].restarts == 1
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.guarantee("ACK-12")
def test_background_work_that_raises_when_its_instance_dies_does_not_kill_the_next_instance() -> None:
    class Victim(KilledByItself):
        async def execute(self, tup: Tuple) -> None:
            if type(self).deaths:
                self.collector.ack(tup)
            else:
                self.context.create_task(self.background(tup))

        async def background(self, tup: Tuple) -> None:
            await asyncio.sleep(0.01)
            self.kill_once()
            raise OSError("too late")

    assert finished_by(Victim).snapshot.components["victim"].restarts == 1
