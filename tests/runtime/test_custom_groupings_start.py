"""Custom groupings that fail at the start of a run."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import engine
from engine import ComponentError, CustomGrouping, TopologyBuilder, UsageError
from tests.runtime.stage import Numbers, Sink, play

opened: list[str] = []


class Unprepared(CustomGrouping):
    def prepare(self, context: Any, stream: str, targets: Sequence[int]) -> None:
        raise OSError("no table of routes")

    def choose_tasks(self, source_task: int, values: Any) -> Sequence[int]:
        return ()


class InTheBackground(Unprepared):
    def prepare(self, context: Any, stream: str, targets: Sequence[int]) -> None:
        context.create_task(asyncio.sleep(1))


class Opens(Numbers):
    def open(self) -> None:
        opened.append("spout")


@pytest.mark.parametrize(("grouping", "cause"), [(Unprepared, OSError), (InTheBackground, UsageError)])
def test_a_grouping_that_cannot_be_prepared_is_an_error_of_its_emitter_before_any_open(grouping: Any, cause: type[Exception]) -> None:
    builder = TopologyBuilder("custom")
    builder.set_spout("source", lambda: Opens(3))
    builder.set_bolt("sink", Sink).custom_grouping("source", grouping)

    async def main() -> None:
        run = engine.run(builder.build())
        with pytest.raises(
            ComponentError, match="custom grouping by which bolt 'sink' reads stream 'default' could not be prepared"
        ) as caught:
            await run.__aenter__()
        assert caught.value.component_id == "source"
        assert isinstance(caught.value.error, cause)

    play(main)
    assert not opened
