"""An object of an event loop refuses calls from elsewhere."""

import asyncio
import threading

import pytest

from engine.errors import UsageError
from engine.home_loop import HomeLoop


async def at_home() -> HomeLoop:
    home = HomeLoop()
    home.adopt_running()
    home.check("run.trace(rate)")
    return home


def test_an_object_without_a_loop_may_be_used_anywhere() -> None:
    HomeLoop().check("run.stop()")


def test_the_first_loop_keeps_the_object_and_its_thread_may_call_between_two_turns() -> None:
    with asyncio.Runner() as runner:
        home = runner.run(at_home())
        home.check("run.trace(rate)")

        async def adopts() -> None:
            home.adopt_running()

        asyncio.run(adopts())
        runner.run(adopts())
        home.check("run.trace(rate)")


@pytest.mark.parametrize("is_async", [False, True])
def test_another_loop_and_another_thread_are_refused_with_the_right_way(is_async: bool) -> None:
    with asyncio.Runner() as runner:
        home = runner.run(at_home())
        texts: list[str] = []

        def refused() -> None:
            with pytest.raises(UsageError) as caught:
                home.check("run.restart_task(task_id)", is_async=is_async)
            texts.append(str(caught.value))

        async def elsewhere() -> None:
            refused()

        thread = threading.Thread(target=refused)
        thread.start()
        thread.join()
        asyncio.run(elsewhere())
        assert len(texts) == 2
        for text in texts:
            assert "run.restart_task(task_id) was called outside the event loop of its run" in text
            way = (
                "run_coroutine_threadsafe(run.restart_task(task_id), loop)"
                if is_async
                else "call_soon_threadsafe(run.restart_task, task_id)"
            )
            assert way in text
