"""Standard loggers below `engine`, which name the component and the task in each record.

The engine only logs. Only the command line calls `configure`, because an embedded run must not change the logging of its program (RUN-5).
"""

import contextlib
import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from engine.json_text import json_text

_STANDARD_ATTRIBUTES: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

_CLIENTS: Final = frozenset({"aiokafka"})


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds `component` and `task` to each record."""

    def __init__(self, logger: logging.Logger, component_id: str, task_id: int) -> None:
        super().__init__(logger, {"component": component_id, "task": task_id})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the component and the task to the `extra` of the call."""
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


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
        if record.stack_info:
            line["stack"] = record.stack_info
        return json_text(line)



class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, so that a live display can replace it."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        logging.Handler.__init__(self)
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        """The current stream."""
        return self._stream()

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("the stream of this handler is always sys.stderr")

    def handleError(self, record: logging.LogRecord) -> None:
        """Report a record that cannot be logged. Never raise, because the logging caller made no mistake."""
        with contextlib.suppress(Exception):
            super().handleError(record)


def _is_reported_elsewhere(record: logging.LogRecord) -> bool:
    """Tell whether a client library logs an error that it also raises. A component then reports the error with a hint.

    A record with a traceback is an error that the library did not expect, so it may be reported nowhere else.
    """
    return record.name.partition(".")[0] in _CLIENTS and record.exc_info is None


def configure(level: str, *, json_lines: bool = False, stream: Callable[[], TextIO] = lambda: sys.stderr) -> None:
    """Send all logging of this process, including user code, to standard error. A second call replaces the settings of the first.

    `stream` returns the current stream. `level` is a level name of `logging` in upper or lower case. Above INFO, the log omits errors of
    client libraries that a component also reports. Only the command line calls this function.
    """
    handler = _StderrHandler(stream)
    handler.setFormatter(JsonFormatter() if json_lines else PlainFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    if root.level > logging.INFO:
        handler.addFilter(lambda record: not _is_reported_elsewhere(record))


def _where(record: logging.LogRecord) -> str:
    component, task = getattr(record, "component", None), getattr(record, "task", None)
    if component is None or record.getMessage().startswith(f"{component!r}"):  # the message already names the component
        return ":"
    return f" [{component!r}]:" if task is None else f" [{component!r} task {task}]:"
