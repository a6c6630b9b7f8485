"""Standard loggers below `engine`, which name the component and the task in each record.

The engine logs by `EngineLogger` and by nothing else. Only the command line calls `configure`, because an embedded run must not change the
logging of its program (RUN-5).
"""

import contextlib
import copy
import itertools
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from engine.json_text import json_text
from engine.program_exit import raise_out_of_loop
from engine.safe_text import safe_str, shorten

_BARE_RECORD: Final = logging.LogRecord("", logging.NOTSET, "", 0, "", (), None)  # not by the record factory of the program
_STANDARD_ATTRIBUTES: Final = frozenset(vars(_BARE_RECORD)) | {"message", "asctime", "taskName"}

_CLIENTS: Final = frozenset({"aiokafka"})
CLIENT_LOG_SECS: Final = 5.0
"""Time for which a message of a client library must come again before it is told."""
CLIENT_LOG_PERIOD_SECS: Final = 60.0
"""Time between two lines about a message that continues. A message that has not come for so long begins anew."""
_MOST_CLIENT_MESSAGES: Final = 200
_MOST_TOLD: Final = 5
"""Lost records that standard error names. From then on it names the 10th, the 100th, the 1,000th and so on."""
_lost_records = itertools.count(1)


class EngineLogger:
    """A standard logger for the engine, whose methods never raise (RUN-6).

    The filters, handlers, formatters and the record factory of the program may raise. Then this record is lost, and standard error says
    so. An exit that they raise ends the program, through the event loop.
    """

    def __init__(self, name: str, component_id: str | None = None, task_id: int | None = None) -> None:
        """component_id, task_id: named in each record, by `name_task`."""
        self._logger = logging.getLogger(name)
        self._component_id = component_id
        self._task_id = task_id

    def for_task(self, component_id: str, task_id: int) -> "EngineLogger":
        """Return the same logger with the place of a task."""
        return EngineLogger(self._logger.name, component_id, task_id)

    def info(self, message: str, *values: object) -> None:
        """Log what the operator may want to know."""
        self._log(logging.INFO, message, values, None)

    def warning(self, message: str, *values: object) -> None:
        """Log what the operator should look at."""
        self._log(logging.WARNING, message, values, None)

    def error(self, message: str, *values: object, exc_info: BaseException | None = None) -> None:
        """Log an error, with the traceback of `exc_info`."""
        self._log(logging.ERROR, message, values, exc_info)

    def critical(self, message: str, *values: object) -> None:
        """Log the end of a run."""
        self._log(logging.CRITICAL, message, values, None)

    def is_enabled_for(self, level: int) -> bool:
        """Tell whether records of a level are logged."""
        return self._logger.isEnabledFor(level)

    def _log(self, level: int, message: str, values: tuple[object, ...], error: BaseException | None) -> None:
        logger = self._logger
        try:
            if not logger.isEnabledFor(level):
                return
            path, line, function, _ = logger.findCaller(stacklevel=3)  # the caller of the method that called this one
            info = None if error is None else (type(error), error, error.__traceback__)
            record = logger.makeRecord(logger.name, level, path, line, message, values, info, function)
            if self._component_id is not None:
                name_task(record, self._component_id, self._task_id)
            logger.handle(record)
        except BaseException as raised:  # noqa: BLE001 - code of the program; only this record is lost
            _lose_record(raised, logger.name, level, _joined(message, values))


def log_again(attributes: dict[str, Any], component_id: str, task_id: int) -> None:
    """Log a record of a task's child process, by the attributes of the record. Never raises, like `EngineLogger`."""
    name, level = attributes["name"], attributes["levelno"]
    try:
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            record = logging.makeLogRecord({})
            made = {key: vars(record)[key] for key in ("component", "task") if key in vars(record)}  # by the record factory of the program
            vars(record).update(attributes | made)
            name_task(record, component_id, task_id)
            logger.handle(record)
    except BaseException as raised:  # noqa: BLE001 - code of the program; only this record is lost
        _lose_record(raised, name, level, attributes["msg"])


def name_task(record: logging.LogRecord, component_id: str, task_id: int | None) -> None:
    """Set `component` and `task` of a record. If the program has set them, set `engine_component` and `engine_task` instead."""
    for name, value in (("component", component_id), ("task", task_id)):
        found = vars(record).get(name, value)
        is_ours = type(found) is type(value) and found == value
        setattr(record, name if is_ours else f"engine_{name}", value)


def _lose_record(error: BaseException, logger_name: str, level: int, text: str) -> None:
    """Write to standard error that a record is lost, because code of the program raised `error`. An exit goes to the event loop.

    Writes nothing if the program has set `logging.raiseExceptions` to False, as the standard library does.
    """
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise_out_of_loop(error)
        return
    number = next(_lost_records)
    if not logging.raiseExceptions or (number > _MOST_TOLD and str(number).strip("0") != "1"):
        return
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "" if last is None else f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
    times = f" ({number:,} records lost so far)" if number > 1 else ""
    with contextlib.suppress(BaseException):  # standard error may be closed, full, or an object of the program
        print(
            f"engine: a log record is lost{times}, because the logging of this program raised {type(error).__name__}: {safe_str(error)}"
            f"{place}. Correct this filter, handler, formatter or record factory. The record: {logging.getLevelName(level)} {logger_name}: "
            f"{shorten(text, 2000)}",
            file=sys.stderr,
        )


def _joined(message: str, values: tuple[object, ...]) -> str:
    try:
        return message % values
    except Exception:  # noqa: BLE001 - a __str__ of user code
        return message


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a record whose arguments do not fit
        return str(record.msg)


class PlainFormatter(logging.Formatter):
    """Formats lines for people, such as `12:30:05 WARNING engine.runtime ['count' task 7]: restarted`."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(where)s %(message)s", datefmt="%H:%M:%S", validate=False)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Put the component and the task of a record before its message."""
        record.where = _where(record)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Formats a record for programs, as a JSON object with `time`, `level`, `logger`, `message`, `component` and `task`.

    `time` is ISO 8601 in UTC. The object also has the keys of `extra`. For a record with a traceback, `exception` has its text. A value
    that JSON cannot express is replaced by its text, so every record becomes one line of valid JSON.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.msg,
        }
        try:
            line["message"] = record.getMessage()
        except Exception:  # noqa: BLE001 - `%` calls methods of the user's values; the record must arrive nevertheless
            line["args"] = record.args
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:  # from another process, or from a handler that has put the record into a queue
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return json_text(line)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, so that a live display can replace it."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        logging.Handler.__init__(self)
        self._stream = stream
        self.client_log: ClientLog | None = None

    @property
    def stream(self) -> TextIO:
        """The current stream."""
        return self._stream()

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("the stream of this handler is always sys.stderr")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless it is folded. The logging module holds the handler's lock."""
        told = record if self.client_log is None else self.client_log.folded(record)
        if told is not None:
            super().emit(told)

    def handleError(self, record: logging.LogRecord) -> None:
        """Report a record that cannot be logged. Never raise, because the logging caller made no mistake."""
        with contextlib.suppress(Exception):
            super().handleError(record)


class ClientLog:
    """Folds the log of client libraries, which log each of many retries.

    A component reports most of these errors with a hint, and many are over after the first retry. So a message is left out until it has
    come again for `CLIENT_LOG_SECS`. From then on it is told once in `CLIENT_LOG_PERIOD_SECS`, with the number of times.
    """

    def __init__(self) -> None:
        self._messages: dict[tuple[str, int, object], _Repeated] = {}

    def folded(self, record: logging.LogRecord) -> logging.LogRecord | None:
        """Return the record to log, or None. A record with a traceback is an error that the library did not expect, so it is told."""
        if record.name.partition(".")[0] not in _CLIENTS or record.exc_info is not None:
            return record
        key = record.name, record.levelno, record.msg
        found = self._messages.get(key)
        if found is None or record.created - found.last >= CLIENT_LOG_PERIOD_SECS:
            if len(self._messages) >= _MOST_CLIENT_MESSAGES:
                self._messages.clear()
            found = self._messages[key] = _Repeated(record.created, record.created + CLIENT_LOG_SECS)
        found.times += 1
        found.last = record.created
        if record.created < found.due:
            return None
        told = copy.copy(record)
        told.msg, told.args = f"{_message_of(record)} ({found.times:,} times in {record.created - found.since:.0f} s)", ()
        self._messages[key] = _Repeated(record.created, record.created + CLIENT_LOG_PERIOD_SECS)
        return told


class _Repeated:
    """A message of a client, since it was last told."""

    __slots__ = ("due", "last", "since", "times")

    def __init__(self, now: float, due: float) -> None:
        self.since = self.last = now
        self.due = due
        self.times = 0


def configure(level: str, *, json_lines: bool = False, stream: Callable[[], TextIO] = lambda: sys.stderr) -> None:
    """Send all logging of this process, including user code, to standard error. A second call replaces the settings of the first.

    `stream` returns the current stream. `level` is a level name of `logging` in upper or lower case. Above INFO, the log of client
    libraries is folded (`ClientLog`). Only the command line calls this function.
    """
    handler = _StderrHandler(stream)
    handler.setFormatter(JsonFormatter() if json_lines else PlainFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    if root.level > logging.INFO:
        handler.client_log = ClientLog()


def _where(record: logging.LogRecord) -> str:
    component, task = (getattr(record, f"engine_{name}", getattr(record, name, None)) for name in ("component", "task"))
    if component is None or record.getMessage().startswith(f"{component!r}"):  # the message already names the component
        return ":"
    return f" [{component!r}]:" if task is None else f" [{component!r} task {task}]:"
