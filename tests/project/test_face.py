"""The spelling of the face: names are fixed, it grows but is never renamed (docs/ARCHITECTURE.md)."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import engine
from engine.version import __version__
from tests.project.sources import ROOT

NAMES = [
    "BasicBolt",
    "BatchBolt",
    "Bolt",
    "BoltCollector",
    "Burst",
    "BurstBolt",
    "BurstCollector",
    "BurstSpout",
    "Committer",
    "ComponentError",
    "Config",
    "ConfigError",
    "EngineBug",
    "EngineError",
    "FailTuple",
    "FailedBatch",
    "Failure",
    "FatalError",
    "Fields",
    "FileSpout",
    "Inlet",
    "InletClosed",
    "KeyValueState",
    "OpaquePartitionedTransactionalSpout",
    "OpaqueValue",
    "OutputCollector",
    "PartitionedTransactionalSpout",
    "Reply",
    "RunEnded",
    "Spout",
    "SpoutCollector",
    "SpoutExhausted",
    "StateError",
    "StateProvider",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StatefulBurstBolt",
    "TaskContext",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "TopologyFileError",
    "TransactionAttempt",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "TransactionalValue",
    "Tuple",
    "TupleFailed",
    "UsageError",
    "bolt",
    "run",
    "spout",
    "stateful_bolt",
]

LATER: dict[str, str] = {}

MEMBERS = {
    "Spout": "activate ack close deactivate fail max_spout_pending next_tuple on_error open output_fields",
    "Bolt": "concurrency execute on_error output_fields prepare tick_tuple_freq_secs",
    "BasicBolt": "concurrency execute on_error output_fields prepare threads tick_tuple_freq_secs",
    "SpoutCollector": "emit emit_direct emit_many ready report_error",
    "BoltCollector": "ack emit emit_direct fail ready report_error reset_timeout",
    "TaskContext": """
        clock component_id config counter create_task drop_metric failure gauge histogram random sources targets task_id task_ids
        task_index tasks topology_name wake
    """,
    "Tuple": "__getitem__ fields is_tick source_component source_task stream values",
    "TopologyBuilder": "build set_bolt set_spout",
    "EngineError": "exit_status",
}

GROUPINGS = ["all", "custom", "direct", "fields", "global", "load_aware", "local_or_shuffle", "none", "partial_key", "shuffle"]

# Storm's keys without `topology.`, in snake case, and Storm's defaults unless docs/SEMANTICS.md states another.
SETTINGS: dict[str, object] = {
    "acker_executors": 1,
    "burst": 256,
    "drain_timeout_secs": 30,
    "enable_message_timeouts": True,
    "executor_receive_buffer_size": 32_768,
    "forgotten_ack": "fail",
    "key_groups": 128,
    "max_spout_pending": None,
    "max_task_restarts": 5,
    "message_timeout_secs": 30,
    "on_error": "fail",
    "restart_window_secs": 60,
    "seed": None,
    "slow_call_warn_ms": 500,
    "timeout_from": "progress",
}

COMMANDS = {
    "run": "-c --config --for --json --show-config --log-level --log-json",
    "check": "-c --config",
    "graph": "--format",
    "state": "list show export delete",
    "kafka": "lag offsets reset dead-letters replay",
    "transactions": "--topology --json",
    "bench": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_root_exports(name: str) -> None:
    assert hasattr(engine, name)
    assert name in engine.__all__


@pytest.mark.parametrize("used", ["metrics.CONTENT_TYPE", "cli.run_in_terminal", "testing.run_topology", "runtime.__doc__"])
def test_its_modules_need_no_import_of_their_own(used: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import engine; engine.{used}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_comes_later_is_not_promised() -> None:
    """A name of the face is exported with the package that makes it work, not before."""
    assert not [name for name, module in LATER.items() if hasattr(engine, name) and not (ROOT / module.replace(".", "/")).is_dir()]


def test_everything_exported_is_documented() -> None:
    exported: list[Any] = [getattr(engine, name) for name in engine.__all__]
    assert not [thing.__name__ for thing in exported if (inspect.isclass(thing) or inspect.isfunction(thing)) and not inspect.getdoc(thing)]


@pytest.mark.parametrize("owner", MEMBERS)
def test_members_are_spelled_as_promised(owner: str) -> None:
    owned = getattr(engine, owner)
    annotated = {name for base in owned.__mro__ for name in getattr(base, "__annotations__", {})}
    assert not [name for name in MEMBERS[owner].split() if not hasattr(owned, name) and name not in annotated]


def test_the_declarer_has_all_groupings() -> None:
    declarer = engine.TopologyBuilder("any").set_bolt("b", lambda: None)  # type: ignore[arg-type, return-value]
    assert not [name for name in GROUPINGS if not callable(getattr(declarer, f"{name}_grouping", None))]


def test_settings_have_storms_names_and_defaults() -> None:
    config = engine.Config()
    assert {name: getattr(config, name) for name in SETTINGS} == SETTINGS


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_has(command: str) -> None:
    shown = shown_by(command, "--help")
    assert not [option for option in COMMANDS[command].split() if option not in shown]


def test_the_version_is_the_distributions() -> None:
    assert __version__ in shown_by("--version")


def shown_by(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "engine", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
