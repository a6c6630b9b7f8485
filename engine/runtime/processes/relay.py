"""`Relay` carries the messages, log records, metrics and errors of a child process to the run."""

import asyncio
import logging
import os
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.metrics import TaskLabels, UserMetrics
from engine.names import plain_text
from engine.runtime.processes.child_log import LogRelay, send_all_records
from engine.runtime.processes.frame_link import FrameLink
from engine.runtime.processes.packed import plain_or_packed
from engine.runtime.processes.task_plan import TaskPlan

MOST_UNSENT_OUTPUT: Final = 1 << 24
"""Unsent bytes above which log records and printed text go to the standard streams of the child, because the run does not read."""


class Relay:
    """Sends the messages of a child to the run, and passes on those that arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.receive: Callable[[bytes], None] = lambda frame: None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.link = FrameLink(loop, lambda frame: self.receive(frame), self._note_end)
        self._thread, self._pid = threading.get_ident(), os.getpid()

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
        send_all_records(LogRelay(plan.info, self._send_record))

    def _send_record(self, record: logging.LogRecord) -> bool:
        return self._send_output("log", {plain_or_packed(name): plain_or_packed(value) for name, value in vars(record).items()})

    def print(self, name: str, text: str) -> bool:
        """Send text of a standard stream. Return False if that is not possible."""
        return self._send_output("print", name, plain_text(text))

    def _send_output(self, *message: Any) -> bool:
        """Send a message from any thread. Return False in a process that this one has forked, and if the run does not read."""
        if os.getpid() != self._pid or self._loop.is_closed() or self.link.unsent_bytes > MOST_UNSENT_OUTPUT:
            return False
        frame = pickle.dumps(message, 5)
        if threading.get_ident() == self._thread:
            self.link.send(frame)
        else:
            self._loop.call_soon_threadsafe(self.link.send, frame)
        return True

    async def close(self) -> None:
        """Send what is left, and close the connection."""
        self.link.close()
        await self.ended

    def _note_end(self) -> None:
        self.ended.set_result(None)


class RelayedMetrics(UserMetrics):
    """Metrics of a child. The run has the totals."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[tuple[str, dict[str, str]]] = []

    def drop_metric(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> None:
        """Remove metrics here and in the run."""
        super().drop_metric(name, task, labels)
        if name in self._declared:  # else its labels are not checked
            self.dropped.append((plain_text(name), {plain_text(label): plain_text(value) for label, value in labels.items()}))
