"""Logging of a child. The run handles its records, so the handlers that the import of the program adds here do not."""

import copy
import logging
import logging.handlers
import sys
from collections.abc import Callable
from typing import Any, Final

from engine.log import PlainFormatter, name_task
from engine.runtime.plan import TaskInfo

_OPEN: Final = logging.FileHandler._open
_TEXTS: Final = logging.Formatter()


def keep_log_files() -> None:
    """Let handlers append to their files until `open_log_files`.

    The import of the program in a child must not cut the log file that the run writes, as a `FileHandler(path, "w")` of its module would.
    """

    def open_to_append(handler: logging.FileHandler) -> Any:
        handler.mode = handler.mode.replace("w", "a").replace("x", "a")
        return _OPEN(handler)

    logging.FileHandler._open = open_to_append  # type: ignore[method-assign, assignment]


def open_log_files() -> None:
    """Let the handlers that are made from now on open their files as they say. They belong to this process."""
    logging.FileHandler._open = _OPEN  # type: ignore[method-assign]


def send_all_records(relay: logging.Handler) -> None:
    """Give all records to one handler, which sends them to the run.

    All handlers that exist now come from the import of the program. The run has imported it too, and would handle a record once more.
    """
    root = logging.getLogger()
    for logger in root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers[:] = [] if logger.propagate else [relay]
    root.handlers[:] = [relay]


class LogRelay(logging.handlers.QueueHandler):
    """Makes log records picklable, adds the task, and sends them."""

    def __init__(self, info: TaskInfo, send: Callable[[logging.LogRecord], bool]) -> None:
        """send: sends a record to the run, and returns False if that is not possible."""
        super().__init__(None)  # type: ignore[arg-type]  # `enqueue` is the only user of the queue
        self._info = info
        self._send = send

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a copy that can be pickled. The message and the text of the traceback stay apart, as the log of the run needs them."""
        record = copy.copy(record)
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = record.exc_text or _TEXTS.formatException(record.exc_info)
            record.exc_info = None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send a record. A process that the child has forked writes it to standard error."""
        name_task(record, self._info.component_id, self._info.task_id)
        if not self._send(record) and sys.stderr is not None:
            sys.stderr.write(f"{PlainFormatter().format(record)}\n")
