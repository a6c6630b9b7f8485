"""A component may stop or drain its own run. The run ends, and does not wait for itself."""

import asyncio
from typing import Any

import pytest

import engine
from engine import Config, Fields, Run, Tuple
from tests.runtime.stage import LogLines, Numbers, Sink, chain, loop, play

pytestmark = pytest.mark.guarantee("RUN-3")


@pytest.mark.parametrize("how", ["stop", "drain"])
@pytest.mark.parametrize("where", ["next_tuple", "execute", "execute's work", "prepare's work", "cleanup"])
def test_a_component_may_end_its_own_run(where: str, how: str) -> None:
    runs: list[Run] = []

    async def end_it() -> None:
        await getattr(runs[0], how)()

    class Source(Numbers):
        output_fields = Fields("number")

        async def next_tuple(self) -> None:  # type: ignore[override]
            if where == "next_tuple" and len(self.waiting) == 50:
                await end_it()
            super().next_tuple()

    class Ends(Sink):
        def prepare(self) -> None:
            if where == "prepare's work":
                self.context.create_task(self.later())

        async def later(self) -> None:
            await asyncio.sleep(1)
            await end_it()

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            if tup[0] == 50 and where == "execute":
                await end_it()
            elif tup[0] == 50 and where == "execute's work":
                self.context.create_task(end_it())
            super().execute(tup)

        async def cleanup(self) -> None:
            if where == "cleanup":
                await end_it()

    async def main() -> Any:
        before = loop().time()
        async with engine.run(chain(lambda: Source(100), Ends), Config(drain_timeout_secs=2)) as run:
            runs.append(run)
            await asyncio.sleep(5)
        return loop().time() - before, run.state

    with LogLines() as log:
        secs, state = play(main)
    assert secs < 6
    assert state in ("stopped", "drained", "complete")
    assert not log.having("did not end")
