"""Tasks that fail everything for a while get few records, and do not clear each other (FC-3, FC-4)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine import FailTuple, FlowSettings
from tests.flow.flow_topologies import Numbers, Work, records, run_flow


class Paced(Numbers):
    """Yields one record in 3 ms, a light load."""

    async def records(self, after: Any) -> AsyncIterator[tuple[int, int]]:  # type: ignore[override]
        for number in range((after or 0) + 1, self.count + 1):
            await asyncio.sleep(0.003)
            yield number, number


@pytest.mark.guarantee("FC-3", "FC-4")
@pytest.mark.parametrize("choice", ["least_wait", "round_robin"])
@pytest.mark.parametrize(("tasks", "broken", "most_tries"), [(12, 2, 12), (12, 6, 40), (3, 3, 100), (12, 12, 400)])
def test_tasks_that_fail_everything_do_not_clear_each_other(choice: Any, tasks: int, broken: int, most_tries: int) -> None:
    made: list[Paced] = []
    done: list[tuple[int, int]] = []
    tries: list[int] = []
    away_until = 0.0

    class Broken(Work):
        async def process(self, record: int) -> None:
            if self.context.task_index < broken and made[0].context.clock.now() < away_until:
                await asyncio.sleep(0.0005)
                tries.append(record)
                raise FailTuple
            await super().process(record)

    class Since(Paced):
        def open(self) -> None:
            nonlocal away_until
            away_until = self.context.clock.now() + 4.0

    def producer() -> Paced:
        made.append(Since(2000))
        return made[-1]

    run_flow(producer, lambda: Broken(done), tasks=tasks, settings=FlowSettings(choice=choice))
    assert set(records(done)) == set(range(1, 2001))
    print(len(tries), "tries")
    assert len(tries) <= most_tries, "too many tries of the 1,300 records"
