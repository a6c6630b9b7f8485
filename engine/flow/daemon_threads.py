"""Threads that a process does not wait for at its end: one that hangs is left behind, and its place is taken by another one."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

IDLE_SECS: Final = 10.0
"""After which a thread without work ends."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class DaemonThreads(Executor):
    """An executor without a queue: each job gets an idle thread, or a new one. Whoever submits bounds their number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: deque[_Thread] = deque()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run a function in a thread."""
        future: Future[_T] = Future()
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._name, self._idle)
            thread.start()
        thread.jobs.put((future, lambda: fn(*args, **kwargs)))
        return future


class _Thread(threading.Thread):
    def __init__(self, name: str, idle: "deque[_Thread]") -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._waiting = idle

    def run(self) -> None:
        while True:
            try:
                future, work = self.jobs.get(timeout=IDLE_SECS)
            except Empty:
                try:
                    self._waiting.remove(self)
                except ValueError:  # it has just been taken from there: a job is on its way
                    continue
                return
            if future.set_running_or_notify_cancel():
                self._do(future, work)
            del future, work
            self._waiting.append(self)

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            future.set_exception(error)
        else:
            future.set_result(result)
