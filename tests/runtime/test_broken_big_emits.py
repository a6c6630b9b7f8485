"""Rows of a big emit_many that cannot be emitted, and emits from other threads (BP-4)."""

import threading
from typing import Any

import pytest

from engine import ComponentError, TopologyBuilder, UsageError
from engine.runtime.pending_rows import ROWS_PER_TURN
from engine.testing import Capture
from tests.runtime.stage import AtOnce, Sink, chain, play_run
from tests.runtime.test_big_emits import MANY, Once, rows

pytestmark = pytest.mark.guarantee("BP-4")


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_a_wrong_row_is_reported_and_later_rows_are_dropped(on_error: str) -> None:
    bad = 3 * ROWS_PER_TURN
    made: list[Once] = []

    def emits(spout: Once) -> None:
        if len(made) == 1:
            spout.collector.emit_many([*rows(0, bad), (1, 2), *rows(bad, MANY)])
            spout.collector.emit((-1,))

    def make() -> Once:
        made.append(Once(emits))
        return made[-1]

    sink = Capture()
    run = play_run(chain(make, sink, on_error=on_error))
    [report] = run.snapshot().errors
    assert "2 values, but the stream has 1 field" in report.text
    if on_error == "fail":
        assert sink.field(0) == [*range(bad), -1]
        assert len(made) == 1
    else:
        assert len(made) == 2


def test_a_row_that_raises_a_base_exception_ends_the_run() -> None:
    class Odd(BaseException):
        pass

    class Groups:
        def prepare(self, context: Any, stream: str, targets: Any) -> None:
            self.targets = targets

        def choose_tasks(self, source_task: int, values: Any) -> Any:
            if values[0] == 2 * ROWS_PER_TURN:
                raise Odd("here")
            return self.targets

    builder = TopologyBuilder("odd")
    builder.set_spout("source", lambda: AtOnce(MANY))
    builder.set_bolt("sink", Sink).custom_grouping("source", Groups)
    with pytest.raises(ComponentError, match="raised Odd: here"):
        play_run(builder.build())


def test_an_emit_of_another_thread_is_refused_while_rows_wait() -> None:
    refused: list[str] = []

    def from_thread(spout: Once) -> None:
        for emit in (lambda: spout.collector.emit((1,)), lambda: spout.collector.emit_many([(1,)])):
            try:
                emit()
            except UsageError as error:
                refused.append(error.message)

    def emits(spout: Once) -> None:
        spout.collector.emit_many(rows(0, MANY))
        thread = threading.Thread(target=from_thread, args=(spout,))
        thread.start()
        thread.join()

    sink = Capture()
    play_run(chain(lambda: Once(emits), sink))
    assert len(refused) == 2
    assert len(sink.arrivals) == MANY
