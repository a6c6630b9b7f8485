"""Children start whatever object the standard error of the program is (PR-2, RUN-6)."""

import asyncio
import sys
from multiprocessing import resource_tracker
from typing import Any

import pytest

from engine.runtime.processes.fork_server import FORK_SERVER


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.guarantee("PR-2", "RUN-6")
@pytest.mark.parametrize(
    "fileno",
    [lambda: None, lambda: -1, lambda: _raise(ValueError()), lambda: _raise(asyncio.CancelledError())],
    ids=["None", "-1", "error", "cancel"],
)
def test_a_child_starts_whatever_standard_error_is(fileno: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        write = flush = staticmethod(lambda *_: None)

    stream, tracker = Stream(), resource_tracker.ResourceTracker()
    stream.fileno = fileno  # type: ignore[attr-defined]
    monkeypatch.setattr(resource_tracker, "getfd", tracker.getfd)  # one that has not begun, as in a new program
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        connection, process = FORK_SERVER.fork("a task")
        connection.close()
        process.kill()
        assert sys.stderr is stream
    finally:
        tracker._stop()  # type: ignore[attr-defined]
