"""Texts of errors, and pickling of errors between processes."""

import pickle

import pytest

from engine import errors
from engine.errors import (
    ComponentError,
    ConfigError,
    EngineBug,
    EngineError,
    Failure,
    FailureReason,
    TopologyError,
    TopologyFileError,
    TupleFailed,
    UsageError,
)


def test_an_error_shows_its_hint_on_a_separate_line() -> None:
    assert str(UsageError("no stream 'late'", hint="Declare it.")) == "no stream 'late'\nFix: Declare it."
    assert str(UsageError("no stream 'late'")) == "no stream 'late'"


def test_a_topology_error_shows_each_fault_with_its_hint() -> None:
    error = TopologyError(["bolt 'a': no 'x'. Add it.", "bolt 'b': no 'y'.\nAdd it."], topology_name="words")

    assert error.faults == ("bolt 'a': no 'x'. Add it.", "bolt 'b': no 'y'.\nAdd it.")
    assert str(error) == "topology 'words', 2 faults:\n  - bolt 'a': no 'x'. Add it.\n  - bolt 'b': no 'y'.\n    Add it."


def test_a_single_fault_is_shown_on_one_line() -> None:
    assert str(TopologyError(["no spout. Add one."])) == "topology: no spout. Add one."
    assert str(ConfigError(["burst must be 1."], headline="run.toml")) == "run.toml: burst must be 1."


def test_a_topology_error_needs_a_fault() -> None:
    with pytest.raises(EngineBug, match="with an empty list of faults"):
        TopologyError([])


def test_a_component_error_names_the_task_and_chains_the_cause() -> None:
    cause = ValueError("bad line")
    error = ComponentError("count", 7, cause)

    assert str(error) == "'count' (task 7): failed for good: ValueError: bad line"
    assert (error.component_id, error.task_id) == ("count", 7)
    assert error.error is cause
    assert error.__cause__ is cause


def test_a_component_error_may_have_its_own_text() -> None:
    error = ComponentError("count", None, None, message="died 6 times in 60 s", hint="See the reports above.")

    assert str(error) == "'count': died 6 times in 60 s\nFix: See the reports above."


@pytest.mark.guarantee("RUN-4")
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ComponentError("a", 1, None), 1),
        (ConfigError(["x"]), 2),
        (TopologyError(["x"]), 2),
        (TopologyFileError("x"), 2),
        (UsageError("x"), 1),
        (EngineBug("x"), 1),
    ],
)
def test_each_error_has_its_exit_status(error: EngineError, status: int) -> None:
    assert error.exit_status == status


@pytest.mark.guarantee("ACK-16")
@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (errors.FAILED, "'count' (task 7) failed it"),
        (errors.ERROR, "'count' (task 7) raised"),
        (errors.TIMEOUT, "timed out; 'count' (task 7) still owes an ack"),
        (errors.FORGOTTEN, "'count' (task 7) dropped its tuple without ack or fail"),
        (errors.ROLLBACK, "'count' (task 7) rolled back its checkpoint"),
        (errors.TASK_DIED, "'count' (task 7) died"),
    ],
)
def test_a_failure_describes_itself(reason: FailureReason, sentence: str) -> None:
    assert Failure(reason, "count", 7).describe() == str(Failure(reason, "count", 7)) == sentence
    assert Failure(reason, "count", 7, "KeyError: 'word'").describe() == f"{sentence}: KeyError: 'word'"


@pytest.mark.guarantee("ACK-16")
def test_a_failure_describes_the_known_fields() -> None:
    assert Failure(errors.TIMEOUT).describe() == "timed out; an unknown task still owes an ack"
    assert Failure(errors.TASK_DIED, "count").describe() == "'count' died"
    assert Failure(errors.TASK_DIED, task_id=3).describe() == "task 3 died"
    assert Failure(errors.TASK_DIED, error="the run ended (stopped)").describe() == "the run ended (stopped)"


@pytest.mark.guarantee("ACK-16")
def test_tuple_failed_carries_the_failure() -> None:
    failure = Failure(errors.ERROR, "count", 7, "boom")

    assert TupleFailed(failure).failure is failure
    assert str(TupleFailed(failure)) == "the tuple failed: 'count' (task 7) raised: boom"


def test_an_engine_bug_shows_its_values() -> None:
    assert str(EngineBug("the ledger lost a root", root=7, value=None)).startswith("the ledger lost a root (root=7, value=None)\nFix: ")


@pytest.mark.parametrize(
    "error",
    [
        EngineError("x", hint="y"),
        TopologyError(["a", "b"], topology_name="t"),
        ConfigError(["a"], headline="h"),
        ComponentError("count", 7, ValueError("x"), hint="y"),
        TupleFailed(Failure("error", "count", 7, "boom")),
        EngineBug("x", root=1),
    ],
)
def test_an_error_survives_pickling(error: EngineError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
