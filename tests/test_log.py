"""Contents of log lines. Only `configure` changes the logging of the process."""

import json
import logging
import math
import sys
from typing import Any

import pytest

from engine.log import JsonFormatter, PlainFormatter, TaskLogger, configure


def _record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("engine.runtime", logging.WARNING, __file__, 1, message, arguments, None)
    record.created, record.msecs = 1_700_000_000.25, 250.0
    vars(record).update(extra)
    return record


def test_a_task_logger_adds_component_and_task(caplog: pytest.LogCaptureFixture) -> None:
    TaskLogger(logging.getLogger("engine.runtime"), "count", 7).warning("restarted %d times", 3, extra={"deaths": 2})

    (record,) = caplog.records
    assert record.getMessage() == "restarted 3 times"
    assert (vars(record)["component"], vars(record)["task"], vars(record)["deaths"]) == ("count", 7, 2)


def test_a_plain_line_names_the_component_and_the_task() -> None:
    line = PlainFormatter().format(_record("restarted", component="count", task=7))

    assert line.endswith(" WARNING engine.runtime ['count' task 7]: restarted")
    assert PlainFormatter().format(_record("ready")).endswith(" WARNING engine.runtime: ready")
    named = PlainFormatter().format(_record("'count' (task 7) raised KeyError", component="count", task=7))
    assert named.endswith(" WARNING engine.runtime: 'count' (task 7) raised KeyError")


def test_a_json_line_carries_everything() -> None:
    line = json.loads(JsonFormatter().format(_record("restarted %d times", 3, component="count", task=7, roots={1})))

    assert line == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "warning",
        "logger": "engine.runtime",
        "message": "restarted 3 times",
        "component": "count",
        "task": 7,
        "roots": "{1}",
    }


def test_a_json_line_is_one_line_with_its_traceback() -> None:
    record = _record("died")
    try:
        raise ValueError("bad\nline")
    except ValueError:
        record.exc_info = sys.exc_info()

    text = JsonFormatter().format(record)

    assert "\n" not in text
    assert json.loads(text)["exception"].endswith("ValueError: bad\nline")


def test_configure_sends_everything_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", json_lines=True)
    logging.getLogger("engine.x").info("one")
    logging.getLogger("users.own").info("two")
    logging.getLogger("engine.x").debug("unseen")

    written = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in written] == ["one", "two"]


def test_a_second_configure_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    configure("ERROR", json_lines=True)
    logging.getLogger("engine.x").info("unseen")
    logging.getLogger("engine.x").error("seen")

    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "seen"


@pytest.mark.parametrize(("level", "seen"), [("warning", ["one", "four"]), ("info", ["one", "two", "three", "four"])])
def test_log_lines_of_client_libraries_are_hidden_by_default(capsys: pytest.CaptureFixture[str], level: str, seen: list[str]) -> None:
    configure(level, json_lines=True)
    logging.getLogger("engine.runtime").error("one")
    logging.getLogger("aiokafka").error("two")
    logging.getLogger("aiokafka.consumer.group_coordinator").warning("three")
    logging.getLogger("aiokafka.consumer.fetcher").error("four", exc_info=ValueError("not expected"))

    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == seen


@pytest.mark.guarantee("RUN-5")
def test_importing_the_engine_adds_no_handler() -> None:
    assert logging.getLogger("engine").handlers == []


class _NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


_RING: list[Any] = []
_RING.append(_RING)


@pytest.mark.parametrize(
    ("extra", "written"),
    [
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ({"share": math.nan, "most": -math.inf}, {"share": "nan", "most": "-inf"}),
        ({math.nan: 1}, {"nan": 1}),
        (_RING, ["..."]),
        pytest.param(10**5000, "<int that cannot be shown: ValueError>", id="huge int"),
        ([1, 10**5000], [1, "<int that cannot be shown: ValueError>"]),
        (_NoRepr(), "<_NoRepr that cannot be shown: RuntimeError>"),
        ({_NoRepr(): b"x"}, {"<_NoRepr that cannot be shown: RuntimeError>": "b'x'"}),
        ("\udcff", "\udcff"),
        ({1, }, "{1}"),
        ({None: True, "größe": 1.5}, {"null": True, "größe": 1.5}),
    ],
)  # fmt: skip
def test_each_extra_arrives_as_one_line_of_valid_json(extra: Any, written: Any) -> None:
    text = JsonFormatter().format(_record("odd", value=extra))

    assert "\n" not in text
    assert text.encode()
    assert json.loads(text, parse_constant=pytest.fail)["value"] == written


def test_a_deep_extra_arrives_without_its_inner_levels() -> None:
    line = json.loads(JsonFormatter().format(_record("deep", value=_nested(100_000), count=7)))

    assert line["count"] == 7
    assert str(line["value"]).startswith("[[[[")


def test_a_record_whose_arguments_do_not_fit_arrives_in_json() -> None:
    line = json.loads(JsonFormatter().format(_record("%d of %d", 1)))

    assert (line["message"], line["args"]) == ("%d of %d", [1])
    assert json.loads(JsonFormatter().format(_record("%s", _NoRepr())))["args"] == ["<_NoRepr that cannot be shown: RuntimeError>"]
