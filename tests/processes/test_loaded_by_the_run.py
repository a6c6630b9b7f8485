"""A value that only the child can load harms its own tuple, and nothing else (PR-1)."""

import logging
import sys
from enum import IntEnum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, TopologyBuilder
from engine.testing import Capture, Feeder, run_topology
from tests.processes import bolts, plugin_bolts
from tests.processes.test_instances import Play

LOST = "bolt 'bolt' runs in a process and has emitted a value that the run cannot load: (Thing(1),) (ModuleNotFoundError: No module named"


@pytest.mark.guarantee("PR-1")
def test_only_the_tuple_with_a_class_of_the_child_is_dropped() -> None:
    play = Play(partial(plugin_bolts.EmitsThings, 700), range(2000))
    assert play.capture.values == [(number,) for number in range(2000) if number % 700 != 1]  # also in order
    assert sorted(play.failures) == [1, 701, 1401]
    assert len(play.feeder.acked) == 1997
    assert LOST in play.failures[1].error
    assert LOST in play.finished.errors[0].text
    assert play.finished.snapshot.components["bolt"].tasks[0].restarts == 0


@pytest.mark.guarantee("PR-1")
def test_each_anchor_of_such_a_tuple_fails() -> None:
    play = Play(plugin_bolts.PairsOfThings, range(8))
    assert play.values == [((number, number + 1),) for number in range(0, 8, 2)]
    assert sorted(play.failures) == [2, 3]


@pytest.mark.guarantee("PR-1")
def test_emits_of_cleanup_with_such_a_value_count() -> None:
    play = Play(plugin_bolts.EmitsAThingAtItsEnd, range(3))
    [task] = play.finished.snapshot.components["bolt"].tasks
    assert (task.emitted, task.restarts) == (4, 0)  # the last one comes when its consumer is closed
    assert any("Thing(1)" in report.text for report in play.finished.errors)


@pytest.mark.guarantee("PR-1")
def test_a_log_record_with_such_a_value_arrives(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(plugin_bolts.LogsThings, range(3))
    assert len(play.feeder.acked) == 3
    records: list[Any] = [record for record in caplog.records if record.name == "users.module"]
    assert [record.getMessage() for record in records] == [f"{number} failed" for number in range(3)]
    assert [(record.thing, record.code, record.key, record.shown) for record in records] == [
        (f"Thing({number})", 404, "a key", "north") for number in range(3)
    ]


@pytest.mark.guarantee("PR-1")
def test_a_log_record_with_names_that_pickle_cannot_store_arrives(caplog: pytest.LogCaptureFixture) -> None:
    Play(plugin_bolts.LogsOddly, range(2))
    records = [record for record in caplog.records if record.name == "orders"]
    assert [(record.getMessage(), record.levelname) for record in records] == [("0 failed", "north"), ("1 failed", "north")]


@pytest.mark.guarantee("PR-1")
def test_loggers_of_the_run_may_have_names_and_levels_of_any_class() -> None:
    class Level(IntEnum):
        LOUD = 41

    logging.getLogger(plugin_bolts.odd_names().VALUE).setLevel(Level.LOUD)
    try:
        assert len(Play(plugin_bolts.CountsOddly, range(3)).feeder.acked) == 3
    finally:
        logging.getLogger("north").setLevel(logging.NOTSET)


@pytest.mark.guarantee("PR-1")
def test_an_error_of_a_class_of_the_child_is_reported() -> None:
    play = Play(partial(plugin_bolts.RaisesPluginError, "execute"), range(3))
    assert {failure.error for failure in play.failures.values()} == {"PluginError: odd"}
    assert play.finished.errors[0].text == "PluginError: odd"


@pytest.mark.guarantee("PR-1", "SV-3")
@pytest.mark.parametrize("where", ["prepare", "fatal"])
def test_an_error_that_ends_the_run_may_have_a_cause_of_the_child(where: str) -> None:
    with pytest.raises(ComponentError) as raised:
        Play(partial(plugin_bolts.RaisesPluginError, where), range(3))
    assert (raised.value.message, raised.value.hint) == ("'bolt' (task 2): key", "key")


@pytest.mark.guarantee("PR-1", "CP-4")
def test_a_hook_may_raise_an_error_of_the_child() -> None:
    settings = {"state_checkpoint_interval_ms": 200, "message_timeout_secs": 2, "processing_guarantee": "at_least_once"}
    play = Play(plugin_bolts.StatefulPluginError, range(3), **settings)
    assert any("PluginError: odd" in report.text for report in play.finished.errors)
    assert "cannot be read here" not in str(play.finished.errors)


@pytest.mark.guarantee("PR-1", "CP-3")
def test_a_state_may_have_classes_of_the_child(tmp_path: Path) -> None:
    settings = {"state_provider": f"sqlite:///{tmp_path}/state.db", "state_codec": "pickle"}
    assert Play(plugin_bolts.KeepsThings, range(3), **settings).values == [(None,)] * 3
    assert Play(plugin_bolts.KeepsThings, range(3), **settings).values == [(0,), (1,), (2,)]


@pytest.mark.guarantee("PR-1", "CP-11")
@pytest.mark.parametrize("is_process", [False, True])
def test_a_start_names_the_value_whose_class_is_gone(is_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"state_provider": f"sqlite:///{tmp_path}/state.db", "state_codec": "pickle"}
    monkeypatch.delitem(sys.modules, plugin_bolts.PLUGIN, raising=False)
    Play(plugin_bolts.KeepsThings, [7], is_process=is_process, **settings)
    sys.modules.pop(plugin_bolts.PLUGIN, None)
    with pytest.raises(ComponentError) as raised:
        Play(partial(plugin_bolts.KeepsThings, has_plugin=False), [7], is_process=is_process, **settings)
    assert "a stored row of 'bolt', key 7, cannot be decoded" in raised.value.message
    assert "a value of plugin_of_a_child.Thing cannot be unpickled: ModuleNotFoundError" in raised.value.message
    assert "keep the old name in the old module as an alias" in str(raised.value.hint)


@pytest.mark.guarantee("PR-1")
def test_a_reason_of_a_failure_may_be_of_any_class() -> None:
    play = Play(plugin_bolts.FailsOddly, range(3))
    assert [failure.error for failure in play.failures.values()] == ["key"] * 3


@pytest.mark.guarantee("PR-1")
def test_names_and_labels_of_metrics_may_be_of_any_class_of_text(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(plugin_bolts.CountsOddly, range(3))
    [metric] = play.finished.snapshot.user_metrics
    assert (metric.name, metric.own_labels, metric.value) == ("orders", {"shop": "north"}, 3)
    assert [type(each) for each in (metric.name, *metric.own_labels, *metric.own_labels.values())] == [str] * 3
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class Names(StrEnum):
    """Names of a topology."""

    TOPOLOGY = "play"
    SPOUT = "numbers"
    BOLT = "bolt"
    FIELD = "number"


@pytest.mark.guarantee("PR-1", "GRP-5")
@pytest.mark.parametrize("is_process", [False, True])
def test_names_of_a_topology_may_be_of_any_class_of_text(is_process: bool) -> None:
    class Local(StrEnum):
        STREAM = "even"
        SEEN = "seen"

    feeder, capture = Feeder(Names.FIELD), Capture()
    builder = TopologyBuilder(Names.TOPOLOGY)
    builder.set_spout(Names.SPOUT, feeder)
    builder.set_bolt(Names.BOLT, bolts.Streams, processes=is_process).fields_grouping(Names.SPOUT, Names.FIELD)
    builder.set_bolt(Local.SEEN, capture).shuffle_grouping(Names.BOLT, Local.STREAM)
    builder.set_bolt("direct", Capture()).direct_grouping(Names.BOLT, "direct")
    topology = builder.build()
    assert {type(name) for name in (topology.name, *topology.components)} == {str}
    feeder.feed((2,))
    feeder.close()
    run_topology(topology)
    assert capture.values == [(2, "even")]
