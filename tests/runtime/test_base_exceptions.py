"""Components that raise a BaseException: the run ends with an error, and does not hang."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine import Bolt, ComponentError, Tuple
from tests.runtime.stage import Endless, Keeper, LogLines, Numbers, Sink, chain, failing, play, running

pytestmark = pytest.mark.guarantee("ACK-12")


class Odd(BaseException):
    """A BaseException like the outcomes of a test framework, or the cancellation of another event loop."""


class OddBolt(Sink):
    error: BaseException

    def execute(self, tup: Tuple) -> None:
        raise self.error


class OddAsyncBolt(OddBolt):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        raise self.error


class OddSpout(Numbers):
    error: BaseException

    def next_tuple(self) -> None:
        raise self.error


class OddAck(Numbers):
    error: BaseException

    def ack(self, message_id: Any) -> None:
        raise self.error


def bolt_of(kind: Any) -> Callable[[], Any]:
    return lambda: chain(lambda: Numbers(3), kind)


def spout_of(kind: Any) -> Callable[[], Any]:
    return lambda: chain(lambda: kind(3), Sink)


@pytest.mark.parametrize("error", [Odd("own"), SystemExit(3)], ids=["own", "SystemExit"])
@pytest.mark.parametrize("make", [bolt_of(OddBolt), bolt_of(OddAsyncBolt), spout_of(OddSpout), spout_of(OddAck)])
def test_a_base_exception_ends_the_run_and_is_named(make: Callable[[], Any], error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (OddBolt, OddSpout, OddAck):
        monkeypatch.setattr(kind, "error", error, raising=False)

    async def main() -> ComponentError | None:
        async with failing(running(make())) as run:
            await asyncio.wait_for(run.completed(), 10)
        assert run.state == "failed"
        return run.error

    told = play(main)
    assert told.error is error
    assert f"raised {type(error).__name__}" in str(told)


def test_a_base_exception_in_a_cleanup_is_reported_and_the_others_are_closed() -> None:
    closed: list[str] = []

    class Raises(Bolt):
        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)

        def cleanup(self) -> None:
            closed.append(self.context.component_id)
            raise Odd("at the end")

    async def main() -> None:
        async with running(chain(Endless, Raises)):
            await asyncio.sleep(1)

    class Closes(Endless):
        def close(self) -> None:
            closed.append("source")
            raise Odd("at the end")

    async def both() -> None:
        async with running(chain(Closes, Raises)):
            await asyncio.sleep(1)

    with LogLines() as log:
        play(main)
        play(both)
    assert closed == ["bolt1", "source", "bolt1"]
    assert len(log.having("Odd: at the end")) == 3


class Shy:
    """An error whose repr and text raise."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


@pytest.mark.parametrize("error", [Odd(), GeneratorExit(), asyncio.CancelledError()], ids=["own", "GeneratorExit", "CancelledError"])
def test_a_timeout_is_reported_even_if_a_repr_raises(error: BaseException) -> None:
    class EmitsShy(Numbers):
        def next_tuple(self) -> None:
            if not self.acked + self.failed and self.waiting:
                self.collector.emit((Shy(error),), self.waiting.popleft())

    spout = EmitsShy(1)

    async def main() -> None:
        async with running(chain(lambda: spout, Keeper), message_timeout_secs=1):
            await asyncio.sleep(2)

    play(main)
    assert [failure.reason for failure in spout.failures] == ["timeout"]
    assert f"cannot be shown: a value's repr raised {type(error).__name__}" in spout.failures[0].describe()


@pytest.mark.guarantee("ACK-13")
def test_a_base_exception_in_an_acker_ends_the_run() -> None:
    class OddTrace:
        def path(self, root: int) -> str:
            raise Odd("in the acker")

    async def main() -> ComponentError | None:
        async with failing(running(chain(lambda: Numbers(1), Keeper), message_timeout_secs=1)) as run:
            run._assembled.explainer.trace = OddTrace()  # type: ignore[assignment]
            await asyncio.wait_for(run.completed(), 10)
        assert run.state == "failed"
        return run.error

    told = play(main)
    assert told.component_id == "__acker"
    assert "Odd: in the acker" in str(told)
