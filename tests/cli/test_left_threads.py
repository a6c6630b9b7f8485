"""A call in a pool thread that outlives its run is named at the end of the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from engine.cli.console.leftovers import report_leftovers
from engine.flow.call_limit import DaemonThreads
from engine.names import POOL_NAME
from tests.patience import PATIENCE_SECS

NAME = f"{POOL_NAME} my_bolt"


@pytest.mark.parametrize("make", [lambda: DaemonThreads(NAME), lambda: ThreadPoolExecutor(1, NAME)], ids=["flow", "pool"])
def test_a_call_that_does_not_return_is_named_by_its_bolt(make: Callable[[], Executor], capsys: pytest.CaptureFixture[str]) -> None:
    began, may_end = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        may_end.wait()

    pool = make()
    call = pool.submit(hang)
    assert began.wait(PATIENCE_SECS)
    pool.shutdown(wait=False)
    try:
        assert report_leftovers()
    finally:
        may_end.set()
        call.result()
    assert "a call of bolt 'my_bolt' in a pool thread did not return" in capsys.readouterr().err


def test_an_idle_thread_of_a_flow_bolt_is_no_call(capsys: pytest.CaptureFixture[str]) -> None:
    DaemonThreads(NAME).submit(int).result()
    report_leftovers()  # another test of this process may have left a thread
    assert "my_bolt" not in capsys.readouterr().err
