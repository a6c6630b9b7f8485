"""Logging: standard loggers under `engine`, with the component and the task of what is said.

The engine only ever gets loggers and logs. `configure` is for the command line: an embedded run leaves the logging of
its host as it is (RUN-5).
"""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

_STANDARD_ATTRIBUTES: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

_CLIENTS: Final = frozenset({"aiokafka"})


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds `component` and `task` to each of its records."""

    def __init__(self, logger: logging.Logger, component_id: str, task_id: int) -> None:
        super().__init__(logger, {"component": component_id, "task": task_id})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keep the `extra` of the call beside the component and the task."""
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


class PlainFormatter(logging.Formatter):
    """Lines for a person: `12:30:05 WARNING engine.executor ['count' task 7] restarted`."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(where)s %(message)s", datefmt="%H:%M:%S", validate=False)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Put the component and the task, where a record has them, before its message."""
        record.where = _where(record)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Lines for a program: one JSON object with `time` (ISO 8601, UTC), `level`, `logger`, `message`, `component`, `task`.

    What a call gave as `extra` stands beside them, an exception as the text of its traceback under `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, default=repr, ensure_ascii=False)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment, so that a live display may stand in for it."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        logging.Handler.__init__(self)
        self._stream = stream

    @property
    def stream(self) -> TextIO:
        """The stream of this moment."""
        return self._stream()

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("the stream of this handler is always sys.stderr")


    def handleError(self, record: logging.LogRecord) -> None:
        """Tell of a record that cannot be logged, if that can be; whoever logs is not to blame."""
        with contextlib.suppress(Exception):
            super().handleError(record)


def _is_told_elsewhere(record: logging.LogRecord) -> bool:
    """True for what a client library logs of what it also raises, which a component reports with what to do about it.

    A traceback is of what the library did not expect, so nobody else may know of it.
    """
    return record.name.partition(".")[0] in _CLIENTS and record.exc_info is None


def configure(level: str, *, json_lines: bool = False, stream: Callable[[], TextIO] = lambda: sys.stderr) -> None:
    """Send all logging of this process, the user's included, to standard error; a second call replaces the first.

    `stream` says what that is now. `level` is a name of the standard library's, in any case; above INFO, client libraries are left out
    where a component reports the same. Called by the command line only.
    """
    handler = _StderrHandler(stream)
    handler.setFormatter(JsonFormatter() if json_lines else PlainFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    if root.level > logging.INFO:
        handler.addFilter(lambda record: not _is_told_elsewhere(record))


def _where(record: logging.LogRecord) -> str:
    component, task = getattr(record, "component", None), getattr(record, "task", None)
    if component is None or record.getMessage().startswith(f"{component!r}"):      # a message that names it itself
        return ":"
    return f" [{component!r}]:" if task is None else f" [{component!r} task {task}]:"
