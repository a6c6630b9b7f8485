"""`Relay` carries the messages, log records, metrics and errors of a child process to the run."""

import asyncio
import logging
import logging.handlers
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any

from engine.cancellation import OWN_CANCELLATION, was_cancelled
from engine.kernel import are_plain
from engine.log import name_task
from engine.metrics import TaskLabels, UserMetrics
from engine.raised import add_note
from engine.runtime.error_report import error_text, user_traceback
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.frame_link import FrameLink
from engine.runtime.processes.task_plan import TaskPlan
from engine.safe_text import safe_repr


class Relay:
    """Sends the messages of a child to the run, and passes on those that arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.receive: Callable[[bytes], None] = lambda frame: None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.link = FrameLink(loop, lambda frame: self.receive(frame), self._note_end)
        self._thread = threading.get_ident()

    def send(self, *message: Any) -> int:
        """Send a message, and return the length of its frame. Raises the error of a value that cannot be pickled."""
        frame = pickle.dumps(message, 5)
        self.link.send(frame)
        return len(frame)

    def send_checked(self, *message: Any) -> int:
        """Do the same for a message that may have values which pickle stores and cannot load. Also raises the error of such a value."""
        frame = pickle.dumps(message, 5)
        pickle.loads(frame)
        self.link.send(frame)
        return len(frame)

    def log_to_run(self, plan: TaskPlan) -> None:
        """Send all log records to the run, with the task."""
        for name, level in plan.log_levels.items():
            logging.getLogger(name).setLevel(level)
        logging.getLogger().handlers[:] = [_LogRelay(plan.info, self._send_record)]

    def _send_record(self, record: logging.LogRecord) -> None:
        attributes = {name: value if _can_be_sent(value) else safe_repr(value) for name, value in vars(record).items()}
        frame = pickle.dumps(("log", attributes), 5)
        if threading.get_ident() == self._thread:
            self.link.send(frame)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.link.send, frame)

    async def close(self) -> None:
        """Send what is left, and close the connection."""
        self.link.close()
        await self.ended

    def _note_end(self) -> None:
        self.ended.set_result(None)


def _can_be_sent(value: object) -> bool:
    """Tell whether pickle can store a value, and can load it here."""
    if are_plain([(value,)]):
        return True
    try:
        pickle.loads(pickle.dumps(value, 5))
    except BaseException:  # noqa: BLE001 - code of the value
        return False
    return True


class _LogRelay(logging.handlers.QueueHandler):
    """Makes log records picklable, adds the task, and sends them."""

    def __init__(self, info: TaskInfo, send: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # `enqueue` is the only user of the queue
        self._info = info
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send a record."""
        name_task(record, self._info.component_id, self._info.task_id)
        self._send(record)


class RelayedMetrics(UserMetrics):
    """Metrics of a child. The run has the totals."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[tuple[str, dict[str, str]]] = []

    def drop_metric(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> None:
        """Remove metrics here and in the run."""
        super().drop_metric(name, task, labels)
        self.dropped.append((name, dict(labels)))


def picklable(error: BaseException) -> BaseException:
    """Return an error that the run can read. Its frames are in a note."""
    if was_cancelled(error):
        error.args = (OWN_CANCELLATION,)
    frames = user_traceback(error)
    if frames:
        add_note(error, f"in the process of the task:\n{frames.rstrip()}")
    try:
        pickle.loads(pickle.dumps(error, 5))
    except BaseException:  # noqa: BLE001 - an exception of user code; its text is what counts
        return RuntimeError(error_text(error))
    return error
