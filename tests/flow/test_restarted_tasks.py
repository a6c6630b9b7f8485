"""An operator restarts tasks of a flow-control spout and its bolt: no record is lost (SV-9, FC-6)."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from engine import Run
from engine.testing import run_topology
from tests.flow.test_restarts import CONFIG, KEPT, Kept, flowing


@pytest.fixture
def kept() -> Iterator[Kept]:
    KEPT.append(Kept())
    yield KEPT[-1]
    KEPT.clear()


@pytest.mark.guarantee("SV-9", "FC-6")
@pytest.mark.parametrize("seed", range(4))
def test_restarts_lose_no_record(seed: int, kept: Kept) -> None:
    draws = random.Random(seed)

    async def restart(run: Run) -> None:
        tasks = [*run.task_ids("numbers"), *run.task_ids("work")]
        for _ in range(12):
            await asyncio.sleep(draws.uniform(0.001, 0.05))
            run.restart_task(draws.choice(tasks))

    finished = run_topology(flowing(), CONFIG.replace(on_error="stop"), during=restart, seed=seed)
    assert finished.state == "complete"
    kept.check()
