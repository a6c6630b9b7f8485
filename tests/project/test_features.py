"""A feature plugs in without a change of the engine: a rule, a system component, snapshot entries, a run part."""

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

import engine
from engine import (
    BasicBolt,
    ComponentError,
    Config,
    Fields,
    FlowEntry,
    Inlet,
    Snapshot,
    Spout,
    SpoutExhausted,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    UsageError,
)
from engine.control import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry
from engine.errors import StateUnavailable
from engine.features import FEATURES
from engine.metrics.openmetrics import Family, Measure
from engine.runtime.metric_families import families
from engine.testing import Capture, run_topology
from engine.topology import ComponentSettings, ComponentSpec, validate_run


class Numbers(Spout):
    output_fields = Fields("number")
    tells_its_count = True

    def open(self) -> None:
        self.left = 3

    def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        self.left -= 1
        self.collector.emit((self.left,), self.left)


class Beacon(Spout):
    """A spout of the feature: it emits nothing."""

    def next_tuple(self) -> None:
        raise SpoutExhausted


class MadeBy:
    def create(self) -> Beacon:
        return Beacon()


class Beacons(Feature):
    """A made-up feature. It stores nothing, wants a small burst, and adds the component `__beacon` to each run."""

    name = "beacons"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        if config.burst > 100:
            yield f"{topology.spouts[0].where}: beacons need a burst of at most 100. Set Config(burst=100)."

    def new_run(self, topology: Topology, config: Config) -> "BeaconRun":
        return BeaconRun(self.calls)


class BeaconRun(FeatureRun):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.tasks = 0
        self.handle: RunHandle | None = None
        self.left = 1

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        self.calls.append("open")
        assert start.provider is None
        beacon = ComponentSpec("__beacon", "spout", MadeBy(), 1, MappingProxyType({}), (), ComponentSettings())
        return replace(topology, components=MappingProxyType({**topology.components, "__beacon": beacon}))

    def join(self, handle: RunHandle) -> None:
        self.calls.append("join")
        self.handle = handle
        self.tasks = len(handle.component_of)

    @property
    def has_work(self) -> bool:
        return self.left > 0

    async def finish(self) -> None:
        assert self.handle is not None
        self.calls.append(f"finish {self.handle.snapshot().state}")
        self.left = 0

    async def close(self, *, clean: bool) -> None:
        self.calls.append(f"close clean={clean}")

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        return (BeaconEntry(self.tasks),)


class BeaconEntry(SnapshotEntry):
    name = "beacons"

    def __init__(self, value: int) -> None:
        self.value = value

    def to_json(self) -> Any:
        return {"tasks": self.value}

    def families(self, topology_name: str) -> Iterator[Family]:
        measure = Measure[int]("beacon_tasks", "gauge", "tasks", "Tasks that a beacon sees.", lambda tasks: tasks)
        yield measure.family("stormcell_", [({"topology": topology_name}, self.value)])


def topology(feature: Feature) -> Topology:
    builder = TopologyBuilder("beacons")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("sink", Capture()).shuffle_grouping("numbers")
    return builder.build().with_feature(feature)


def test_a_feature_judges_a_topology() -> None:
    with pytest.raises(TopologyError, match="spout 'numbers': beacons need a burst of at most 100"):
        validate_run(topology(Beacons()), Config(burst=101))
    validate_run(topology(Beacons()), Config(burst=100))


def test_a_feature_takes_part_in_a_run() -> None:
    feature = Beacons()
    finished = run_topology(topology(feature), Config(burst=64))
    assert feature.calls == ["open", "join", "finish running", "close clean=True"]
    assert finished.snapshot.components["__beacon"].kind == "spout"
    assert [spout.component_id for spout in finished.snapshot.spouts] == ["numbers"]
    tasks = 2 + 1 + 1
    assert finished.snapshot.beacons == finished.snapshot.entry(BeaconEntry).value == tasks
    shown = json.loads(json.dumps(finished.snapshot.to_dict()))
    assert (shown["beacons"], shown["checkpoint"], shown["flow"]) == ({"tasks": tasks}, None, [])
    [sample] = next(family for family in families(finished.snapshot) if family.name == "stormcell_beacon_tasks").samples
    assert sample.value == tasks


def test_an_entry_that_a_snapshot_does_not_have_is_named() -> None:
    snapshot = Snapshot("plain", "running", 0.0, {}, entries=(FlowEntry(()),))
    with pytest.raises(UsageError, match="the snapshot of 'plain' has no BeaconEntry\nFix: Its entries are: FlowEntry"):
        snapshot.entry(BeaconEntry)


def test_a_feature_is_closed_though_the_run_fails() -> None:
    class Broken(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            raise RuntimeError("no")

        def next_tuple(self) -> None:
            raise SpoutExhausted

    feature = Beacons()
    builder = TopologyBuilder("broken")
    builder.set_spout("numbers", Broken)
    with pytest.raises(ComponentError, match="raised RuntimeError: no"):
        run_topology(builder.build().with_feature(feature), Config(burst=64, on_error="stop"))
    assert feature.calls == ["open", "join", "close clean=False"]


def test_the_builder_notes_the_marks_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(Beacons):
        marks = MappingProxyType({"spout": ("tells_its_count",)})

    monkeypatch.setattr("engine.topology.features._load", lambda: (*FEATURES, Counted()))
    assert topology(Beacons()).components["numbers"].marks == {"tells_its_count"}
    assert [feature.name for feature in topology(Beacons()).features] == ["checkpoint", "transactional", "flow", "beacons"]


class BrokenRun(FeatureRun):
    """A part that raises in one method, `method`, and has work at the end."""

    error: Exception = ValueError("broken")

    def __init__(self, method: str, calls: list[str]) -> None:
        self.method, self.calls, self.is_finished = method, calls, False

    def reach(self, method: str) -> None:
        self.calls.append(method)
        if method == self.method:
            raise self.error

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        self.reach("open")
        return topology

    def join(self, handle: RunHandle) -> None:
        self.reach("join")

    @property
    def has_work(self) -> bool:
        if not self.is_finished:
            self.reach("has_work")
        return not self.is_finished

    async def finish(self) -> None:
        self.reach("finish")
        self.is_finished = True

    async def close(self, *, clean: bool) -> None:
        self.reach("close")

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        if self.method == "snapshot_entries":
            raise ValueError("broken")
        return ()


class BrokenFeature(Feature):
    def __init__(self, method: str, name: str = "broken") -> None:
        self.method, self.name = method, name
        self.calls: list[str] = []

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        if self.method == "new_run":
            raise ValueError("broken")
        return BrokenRun(self.method, self.calls)


@pytest.mark.guarantee("SV-4")
@pytest.mark.parametrize("method", ["new_run", "open", "join", "has_work", "finish", "snapshot_entries"])
def test_an_error_of_a_feature_ends_the_run_and_names_the_feature(method: str) -> None:
    with pytest.raises(ComponentError, match=rf"^'feature broken': {method}(\(\))? raised ValueError: broken"):
        run_topology(topology(BrokenFeature(method)))


class RunWithoutStore(BrokenRun):
    error = StateUnavailable("the store is away", hint="Start it.")


class FeatureWithoutStore(BrokenFeature):
    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        return RunWithoutStore(self.method, self.calls)


@pytest.mark.guarantee("SV-4")
@pytest.mark.parametrize("method", ["has_work", "finish"])
def test_an_error_of_the_engine_in_a_feature_ends_a_run_at_its_end(method: str) -> None:
    with pytest.raises(ComponentError, match=rf"'feature broken': {method}\(\) raised StateUnavailable: the store is away. Start it"):
        run_topology(topology(FeatureWithoutStore(method)))


def test_an_error_of_the_engine_in_a_feature_passes_unchanged_before_the_run_begins() -> None:
    with pytest.raises(StateUnavailable, match=r"^the store is away"):
        run_topology(topology(FeatureWithoutStore("open")))


@pytest.mark.guarantee("RUN-3")
def test_a_drain_whose_last_commit_takes_too_long_says_so(caplog: pytest.LogCaptureFixture) -> None:
    class StuckRun(BrokenRun):
        async def finish(self) -> None:
            await asyncio.Event().wait()

    class StuckFeature(BrokenFeature):
        def new_run(self, topology: Topology, config: Config) -> FeatureRun:
            return StuckRun(self.method, self.calls)

    async def drain(run: engine.Run) -> None:
        await run.drain(5)

    with caplog.at_level(logging.WARNING):
        finished = run_topology(topology(StuckFeature("")), during=drain)
    assert finished.state == "drained"
    text = "drain: not finished after 5 s (the last commit is not done). Open trees are lost unless their sources replay them"
    assert [record.message for record in caplog.records] == [text]


@pytest.mark.guarantee("RUN-3")
async def test_an_error_of_a_feature_at_a_drain_ends_the_run() -> None:
    builder = TopologyBuilder("drained")
    builder.set_spout("in", lambda: Inlet("line"))
    builder.set_bolt("sink", Capture()).shuffle_grouping("in")
    run = engine.run(builder.build().with_feature(BrokenFeature("finish")), Config(drain_timeout_secs=1))
    with pytest.raises(ComponentError, match="'feature broken': finish"):
        async with run:
            await run.drain()
    assert run.state == "failed"


async def test_a_run_whose_start_failed_cannot_be_entered_again() -> None:
    run = engine.run(topology(BrokenFeature("open")))
    for error in (ComponentError, UsageError):
        with pytest.raises(error):
            async with run:
                pass


def test_a_close_that_raises_is_logged_and_the_run_stays_complete(caplog: pytest.LogCaptureFixture) -> None:
    first, second = BrokenFeature("close", "first"), BrokenFeature("close", "second")
    finished = run_topology(topology(first).with_feature(second))
    assert finished.snapshot.state == "complete"
    assert [record.getMessage() for record in caplog.records if "could not be closed" in record.getMessage()] == [
        "the feature 'second' could not be closed",
        "the feature 'first' could not be closed",
    ]


def test_only_features_that_were_opened_are_closed() -> None:
    before, broken, after = BrokenFeature("", "before"), BrokenFeature("open", "broken"), BrokenFeature("", "after")
    with pytest.raises(ComponentError, match="'feature broken': open"):
        run_topology(topology(before).with_feature(broken).with_feature(after))
    assert (before.calls, broken.calls, after.calls) == (["open", "close"], ["open", "close"], [])


async def test_a_host_that_is_cancelled_while_a_feature_closes_leaves_no_feature_open() -> None:
    closing = asyncio.Event()

    class SlowRun(BrokenRun):
        async def close(self, *, clean: bool) -> None:
            closing.set()
            await asyncio.sleep(60)

    class SlowFeature(BrokenFeature):
        def new_run(self, topology: Topology, config: Config) -> FeatureRun:
            return SlowRun(self.method, self.calls)

    first = BrokenFeature("", "first")
    run = engine.run(topology(first).with_feature(SlowFeature("open", "slow")))
    host = asyncio.create_task(run.__aenter__())
    await closing.wait()
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert first.calls == ["open", "close"]


@pytest.mark.parametrize("given", [42, BrokenFeature])
def test_an_object_that_is_no_feature_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="takes a TopologyFeature"):
        topology(Beacons()).with_feature(given)


@pytest.mark.guarantee("RUN-2")
def test_a_tree_that_opens_during_the_last_commit_is_waited_for() -> None:
    acked: list[int] = []

    class EmitsLater(Numbers):
        def open(self) -> None:
            self.left = 0
            self.context.create_task(self.emit_later())

        async def emit_later(self) -> None:
            await asyncio.sleep(1)
            self.collector.emit((7,), 7)

        def ack(self, message_id: int) -> None:
            acked.append(message_id)

    class Slow(BasicBolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(3)

    class SlowRun(BeaconRun):
        async def finish(self) -> None:
            await asyncio.sleep(2)
            await super().finish()

    class SlowBeacons(Beacons):
        def new_run(self, topology: Topology, config: Config) -> SlowRun:
            return SlowRun(self.calls)

    builder = TopologyBuilder("beacons")
    builder.set_spout("numbers", EmitsLater)
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    assert run_topology(builder.build().with_feature(SlowBeacons()), Config(burst=64)).state == "complete"
    assert acked == [7]
