"""Contents of log lines. Only `configure` changes the logging of the process."""

import asyncio
import inspect
import itertools
import json
import logging
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.log import ClientLog, EngineLogger, JsonFormatter, PlainFormatter, configure, log_again
from tests.project.sources import ROOT


def _record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("engine.runtime", logging.WARNING, __file__, 1, message, arguments, None)
    record.created, record.msecs = 1_700_000_000.25, 250.0
    vars(record).update(extra)
    return record


def test_a_task_logger_adds_component_and_task(caplog: pytest.LogCaptureFixture) -> None:
    EngineLogger("engine.runtime").for_task("count", 7).warning("restarted %d times", 3)

    (record,) = caplog.records
    assert record.getMessage() == "restarted 3 times"
    assert (vars(record)["component"], vars(record)["task"]) == ("count", 7)


def test_a_record_names_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    EngineLogger("engine.runtime").for_task("count", 7).error("restarted", exc_info=ValueError("no"))

    (record,) = caplog.records
    assert (record.pathname, record.funcName) == (__file__, "test_a_record_names_the_line_that_logs")
    assert "EngineLogger" in inspect.getsource(sys.modules[__name__]).splitlines()[record.lineno - 1]
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


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


def test_a_json_line_has_the_traceback_of_a_record_that_was_in_a_queue() -> None:
    text = JsonFormatter().format(_record("died", exc_text="Traceback: no"))

    assert json.loads(text)["exception"] == "Traceback: no"


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
def test_single_lines_of_client_libraries_are_hidden_by_default(
    capsys: pytest.CaptureFixture[str], level: str, seen: list[str]
) -> None:
    configure(level, json_lines=True)
    logging.getLogger("engine.runtime").error("one")
    logging.getLogger("aiokafka").error("two")
    logging.getLogger("aiokafka.consumer.group_coordinator").warning("three")
    logging.getLogger("aiokafka.consumer.fetcher").error("four", exc_info=ValueError("not expected"))

    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == seen


@pytest.mark.guarantee("KS-14")
def test_log_lines_of_client_libraries_that_come_again_are_folded() -> None:
    """Given ten equal messages a second, then the log has one line after 5 s, and one more each minute. Other messages start anew."""
    log, told = ClientLog(), []

    def logged(at: float, message: str, *values: object, name: str = "aiokafka") -> None:
        record = logging.makeLogRecord({"name": name, "levelno": logging.ERROR, "msg": message, "args": values, "created": at})
        if (one := log.folded(record)) is not None:
            told.append((at, one.getMessage()))
        assert record.getMessage() == message % values  # the handlers of the program see it unchanged

    for tenth in range(1300):
        logged(tenth / 10, "Unable connect to node with id %s: %s", tenth % 3, "refused")
    logged(130.0, "Failed fetch messages from %s", 1)
    logged(500.0, "Unable connect to node with id %s: %s", 2, "refused")
    logged(500.0, "of the engine", name="engine.kafka")
    assert told == [
        (5.0, "Unable connect to node with id 2: refused (51 times in 5 s)"),
        (65.0, "Unable connect to node with id 2: refused (600 times in 60 s)"),
        (125.0, "Unable connect to node with id 2: refused (600 times in 60 s)"),
        (500.0, "of the engine"),
    ]
    for number in range(1000):
        logged(501.0, f"no template, but a text with a number: {number}")
    assert len(log._messages) <= 200


@pytest.mark.guarantee("RUN-5")
def test_importing_the_engine_adds_no_handler() -> None:
    assert logging.getLogger("engine").handlers == []


# Logging of the program that raises


class Own(BaseException):
    """No Exception, like the outcomes of a test framework."""


ODD = [ValueError("no"), StopIteration(), asyncio.CancelledError(), GeneratorExit(), RecursionError(), Own("no")]


@pytest.fixture(autouse=True)
def none_lost_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.log._lost_records", itertools.count(1))


@contextmanager
def attached(handler: logging.Handler | None = None, factory: Any = None) -> Iterator[None]:
    """Add a handler to the root logger, and set a record factory."""
    root, before = logging.getLogger(), logging.getLogRecordFactory()
    if handler is not None:
        root.addHandler(handler)
    if factory is not None:
        logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)
        if handler is not None:
            root.removeHandler(handler)


class Raising(logging.Handler):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_a_handler_that_raises_costs_only_the_record(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    with attached(Raising(error)):
        EngineLogger("engine.x").error("seen %d times", 3)
        EngineLogger("engine.x").error("again")

    first, second = capsys.readouterr().err.splitlines()
    assert f"raised {type(error).__name__}" in first
    assert f"at {__file__}:" in first
    assert first.endswith("The record: ERROR engine.x: seen 3 times")
    assert second.endswith("The record: ERROR engine.x: again")


@pytest.mark.guarantee("RUN-6")
def test_standard_error_is_not_flooded_by_lost_records(capsys: pytest.CaptureFixture[str]) -> None:
    with attached(Raising(ValueError("no"))):
        for _ in range(1_500):
            EngineLogger("engine.x").error("lost")

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5 + 3
    assert "(1,000 records lost so far)" in lines[-1]


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("made", [None, "nonsense", ValueError("no"), asyncio.CancelledError()], ids=str)
def test_a_record_factory_that_is_wrong_costs_only_the_record(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def factory(*arguments: Any, **named: Any) -> Any:
        if isinstance(made, BaseException):
            raise made
        return made

    with attached(factory=factory):
        EngineLogger("engine.x").for_task("count", 7).error("gone")
        log_again({"name": "engine.x", "levelno": logging.ERROR, "msg": "of a child"}, "count", 7)

    assert [line.partition("The record: ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "ERROR engine.x: gone",
        "ERROR engine.x: of a child",
    ]


IMPORTS = """
import logging
usual = logging.getLogRecordFactory()

def of_a_request(*arguments, **named):
    record = usual(*arguments, **named)
    record.request = "r-1"
    return record

def without_a_request(*arguments, **named):
    raise LookupError("no request")

logging.setLogRecordFactory(without_a_request)
import engine.log

logging.setLogRecordFactory(of_a_request)
import importlib

importlib.reload(engine.log)
engine.log.configure("info", json_lines=True)
engine.log.EngineLogger("engine.x").info("seen")
"""


@pytest.mark.guarantee("RUN-6")
def test_the_engine_is_imported_under_any_record_factory() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr)["request"] == "r-1"


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("broken", [None, "closed", "raises"])
def test_lost_records_are_survived_without_standard_error(broken: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def write(self, text: str) -> None:
            raise SystemExit(3) if broken == "raises" else ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", Stream() if broken else None)
    with attached(Raising(ValueError("no"))):
        EngineLogger("engine.x").error("gone")


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("way", [EngineLogger("engine.x").for_task("count", 7).error, None], ids=["here", "child"])
def test_attributes_of_a_record_factory_stay(way: Any, caplog: pytest.LogCaptureFixture) -> None:
    usual = logging.getLogRecordFactory()

    def factory(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = usual(*arguments, **named)
        record.component = "billing"
        return record

    with attached(factory=factory):
        if way is not None:
            way("restarted")
        else:  # a record of a child, whose factory is the usual one
            log_again(vars(usual("engine.x", logging.ERROR, "", 1, "restarted", (), None)) | {"component": "count", "task": 7}, "count", 7)

    (record,) = caplog.records
    assert (vars(record)["component"], vars(record)["task"], vars(record)["engine_component"]) == ("billing", 7, "count")
    assert "engine_task" not in vars(record)
    assert PlainFormatter().format(record).endswith(" ['count' task 7]: restarted")


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_handler_that_exits_ends_the_program_through_its_loop(kind: type[BaseException]) -> None:
    went_on = []

    async def main() -> None:
        EngineLogger("engine.x").error("exits")
        went_on.append(True)
        await asyncio.sleep(60)

    with attached(Raising(kind(3))), pytest.raises(kind):
        asyncio.run(main())
    assert went_on


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
        pytest.param(10**5000, "<int that cannot be shown: a value's repr raised ValueError>", id="huge int"),
        ([1, 10**5000], [1, "<int that cannot be shown: a value's repr raised ValueError>"]),
        (_NoRepr(), "<_NoRepr that cannot be shown: a value's repr raised RuntimeError>"),
        ({_NoRepr(): b"x"}, {"<_NoRepr that cannot be shown: a value's repr raised RuntimeError>": "b'x'"}),
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
    text = "<_NoRepr that cannot be shown: a value's repr raised RuntimeError>"
    assert json.loads(JsonFormatter().format(_record("%s", _NoRepr())))["args"] == [text]
