"""Calls of `process` that exit or cancel their own asyncio task count as in any other bolt (ACK-12)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine import ComponentError, FlowControlBolt
from tests.flow.flow_topologies import Numbers, run_flow

pytestmark = pytest.mark.guarantee("ACK-12", "FC-9")


def coroutine_of(act: Any) -> type[FlowControlBolt]:
    class Acts(FlowControlBolt):
        async def process(self, record: int) -> None:
            act(record)
            await asyncio.sleep(0.01)

    return Acts


def generator_of(act: Any) -> type[FlowControlBolt]:
    class Acts(FlowControlBolt):
        output_fields = "record"

        async def process(self, record: int) -> AsyncIterator[Any]:
            await asyncio.sleep(0.01)
            act(record)
            yield (record,)

    return Acts


@pytest.mark.parametrize("bolt_of", [coroutine_of, generator_of])
@pytest.mark.parametrize("error", [SystemExit, type("Odd", (BaseException,), {})])
def test_a_process_that_exits_ends_the_run_not_the_program(bolt_of: Any, error: type[BaseException]) -> None:
    def exits(record: int) -> None:
        raise error("on purpose")

    with pytest.raises(ComponentError, match=f"raised {error.__name__}: on purpose"):
        run_flow(lambda: Numbers(3), bolt_of(exits))


@pytest.mark.parametrize("bolt_of", [coroutine_of, generator_of])
def test_a_process_that_cancels_itself_fails_alone_and_is_named(bolt_of: Any) -> None:
    cancelled: list[int] = []

    def cancels(record: int) -> None:
        aio_task = asyncio.current_task()
        assert aio_task is not None
        if not cancelled:
            cancelled.append(record)
            aio_task.cancel()

    finished = run_flow(lambda: Numbers(3), bolt_of(cancels))
    assert finished.state == "complete"
    [report] = finished.errors
    assert "process() cancelled the asyncio task that runs it" in report.text
