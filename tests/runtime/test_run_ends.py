"""The end of a run reaches log, callbacks, waiters and senders (SV-4)."""

import asyncio
import logging
import traceback
from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Tuple, UsageError
from tests.runtime.ends import CLOSING_SECS, Raises, RaisesOwn, breaks, entered, fatal_topology
from tests.runtime.stage import Endless, LogLines, Numbers, Sink, chain, failing, loop, play, running

pytestmark = pytest.mark.guarantee("SV-4")


def test_completed_raises_before_any_component_is_closed() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            with pytest.raises(ComponentError, match="the licence has expired") as caught:
                await run.completed()
            assert loop().time() == 1
            assert run.error is caught.value
        assert run.error is caught.value
        assert loop().time() == 1 + CLOSING_SECS, "leaving the block must wait until all is closed"
        assert run.state == "failed"
        with pytest.raises(ComponentError) as again:
            await run.completed()
        assert again.value is caught.value

    play(main)


@pytest.mark.parametrize("kind", ["fatal", "stop", "restart", "background"])
def test_completed_raises_before_the_component_that_failed_is_closed_itself(kind: str) -> None:
    """`cleanup` may hang, since it closes the broken connection that caused the failure."""

    class Closes(Bolt):
        def prepare(self) -> None:
            if kind == "background":
                self.context.create_task(self.execute(None))

        async def execute(self, tup: Tuple | None) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            raise ValueError("broken pipe") if kind in ("stop", "restart") else engine.FatalError("broken pipe")

        async def cleanup(self) -> None:
            await asyncio.sleep(CLOSING_SECS)

    async def main() -> None:
        settings: dict[str, Any] = {"on_error": kind if kind in ("stop", "restart") else "fail", "max_task_restarts": 0}
        source = Endless if kind == "background" else lambda: Numbers(1)
        async with failing(entered(chain(source, Closes), **settings)) as run:
            with pytest.raises(ComponentError, match="broken pipe"):
                await run.completed()
            assert loop().time() == 1
        assert loop().time() == 1 + CLOSING_SECS

    play(main)


@pytest.mark.parametrize(
    ("topology", "settings", "reason"),
    [
        (fatal_topology, {}, "'bolt2' (task 3): the licence has expired. Renew it."),
        (lambda: chain(lambda: Numbers(1), Raises), {"on_error": "stop"}, "'bolt1' (task 2): raised ValueError: at the input"),
        (
            lambda: chain(lambda: Numbers(9), Raises),
            {"on_error": "restart", "max_task_restarts": 2},
            "'bolt1' (task 2): died more than 2 times in 60 s",
        ),
        (lambda: chain(lambda: Numbers(1), RaisesOwn), {}, "'bolt1' (task 2): raised Own: at the input"),
        (lambda: chain(breaks, Sink), {}, "source is gone"),
    ],
    ids=["fatal", "stop", "restart", "base exception", "generator"],
)
def test_one_critical_log_line_has_the_reason_before_the_end(topology: Any, settings: dict[str, Any], reason: str) -> None:
    def critical() -> list[str]:
        return [record.getMessage() for record in log.records if record.levelno == logging.CRITICAL]

    async def main() -> None:
        async with failing(entered(topology(), **settings)) as run:
            try:
                await run.completed()
            finally:
                assert len(critical()) == 1

    with LogLines() as log:
        play(main)
    [line] = critical()
    assert line.startswith("the run of 'chain' ends: ")
    assert reason in line
    assert "\n" not in line


@pytest.mark.parametrize("ending", ["complete", "drain", "stop", "leave"])
def test_a_run_that_does_not_fail_logs_no_critical_line_and_does_not_raise(ending: str) -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Sink) if ending == "complete" else chain(Endless, Sink)) as run:
            if ending == "complete":
                await run.completed()
            elif ending == "drain":
                await run.drain()
            elif ending == "stop":
                await run.stop()
        await run.completed()
        assert run.error is None

    with LogLines() as log:
        play(main)
    assert not [record for record in log.records if record.levelno >= logging.ERROR]


# on_end


@pytest.mark.parametrize("when", ["before", "inside", "after"])
def test_a_callback_gets_the_error_at_once(when: str) -> None:
    """The callback may be registered before the run is entered, while it runs, or after it has failed."""
    told: list[tuple[ComponentError | None, float]] = []

    async def main() -> None:
        run = entered(fatal_topology())

        def note(error: ComponentError | None) -> None:
            told.append((error, loop().time()))

        if when == "before":
            run.on_end(note)
        async with failing(run):
            if when == "inside":
                run.on_end(note)
            await run.completed()
        if when == "after":
            assert not told
            run.on_end(note)
        assert told == [(run.error, 1.0 if when != "after" else 1 + CLOSING_SECS)]

    play(main)


def test_a_callback_is_called_once_and_several_are_called_in_order() -> None:
    told: list[str] = []

    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            for name in "abc":
                run.on_end(lambda error, name=name: told.append(name))
            await run.completed()
            await asyncio.sleep(20)
        with pytest.raises(ComponentError, match="licence"):
            await run.stop()

    play(main)
    assert told == ["a", "b", "c"]


def test_a_callback_that_raises_is_logged_and_the_others_are_called() -> None:
    told: list[object] = []

    def raises(error: ComponentError | None) -> None:
        raise KeyError("in the callback")

    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            run.on_end(raises)
            run.on_end(told.append)
            await run.completed()
        run.on_end(raises)

    with LogLines() as log:
        play(main)
    assert len(told) == 1
    lines = [record for record in log.records if record.levelno == logging.ERROR and "on_end" in record.getMessage()]
    assert len(lines) == 2
    assert all(record.exc_info and isinstance(record.exc_info[1], KeyError) for record in lines)


def test_a_callback_that_raises_is_logged_without_the_error_that_ended_the_run() -> None:
    def raises(error: ComponentError | None) -> None:
        try:
            {}["mail"]
        except KeyError:
            raise OSError("no mail server")  # noqa: B904 - forgotten by many

    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            run.on_end(raises)
            await run.completed()

    with LogLines() as log:
        play(main)
    [line] = [record for record in log.records if "on_end" in record.getMessage()]
    assert line.exc_info
    text = "".join(traceback.format_exception(line.exc_info[1]))
    assert "'mail'" in text
    assert "the licence has expired" not in text


async def told_later(error: ComponentError | None) -> None:
    raise AssertionError("nobody awaits it")


@pytest.mark.parametrize("callback", [None, 5, told_later, lambda: None], ids=["None", "5", "async", "no parameter"])
@pytest.mark.parametrize("when", ["before", "running"])
def test_a_callback_that_cannot_be_called_is_refused(callback: Any, when: str) -> None:
    async def main() -> None:
        run = engine.run(chain(lambda: Numbers(1), Sink))
        if when == "before":
            with pytest.raises(UsageError, match=r"on_end\(\) takes a plain function of one argument"):
                run.on_end(callback)
        else:
            async with run:
                with pytest.raises(UsageError, match=r"on_end\(\) takes a plain function of one argument"):
                    run.on_end(callback)

    play(main)


def test_a_callback_that_returns_a_coroutine_is_logged() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            run.on_end(lambda error: told_later(error))
            await run.completed()

    with LogLines() as log:
        play(main)
    [line] = [record.getMessage() for record in log.records if "on_end" in record.getMessage()]
    assert "returned a coroutine, which nobody awaits" in line


@pytest.mark.parametrize("ending", ["complete", "drain", "stop", "leave"])
def test_a_run_that_does_not_fail_calls_back_with_none_after_all_is_closed(ending: str) -> None:
    told: list[tuple[ComponentError | None, float]] = []
    closed_at: list[float] = []

    class Closes(Sink):
        async def cleanup(self) -> None:
            await asyncio.sleep(CLOSING_SECS)
            closed_at.append(loop().time())

    async def main() -> None:
        run = entered(chain(lambda: Numbers(1), Closes) if ending == "complete" else chain(Endless, Closes))
        run.on_end(lambda error: told.append((error, loop().time())))
        async with run:
            await asyncio.sleep(0)
            if ending == "complete":
                await run.completed()
            elif ending == "drain":
                await run.drain()
            elif ending == "stop":
                await run.stop()
        assert told == [(None, closed_at[0])]
        late: list[object] = []
        run.on_end(late.append)
        assert late == [None]

    play(main)


def test_a_callback_may_stop_another_run_and_set_an_event() -> None:
    """A host may cancel its own work in the callback."""

    async def main() -> None:
        over = asyncio.Event()
        async with running(chain(Endless, Sink)) as other:
            async with failing(entered(fatal_topology())) as run:
                run.on_end(lambda error: over.set())
                await over.wait()
                assert loop().time() == 1
                await other.stop()
            assert other.state == "stopped"

    play(main)


def test_a_failed_start_calls_back_too() -> None:
    told: list[ComponentError | None] = []

    class NoBolt(Sink):
        def prepare(self) -> None:
            raise OSError("not there")

    async def main() -> None:
        run = entered(chain(Endless, NoBolt), max_task_restarts=0)
        run.on_end(told.append)

        async def host() -> None:
            async with run:
                raise AssertionError("it has started")

        with pytest.raises(ComponentError) as caught:
            await host()
        assert told == [caught.value]

    play(main)
