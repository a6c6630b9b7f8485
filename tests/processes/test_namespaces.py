"""Namespaces of stateful bolts in processes: their changes and drops travel in frames (CP-12, CP-13, PR-1)."""

import asyncio
import os
import pickle
import random
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine import Config, TopologyBuilder, spout
from engine.checkpoint.stored import CommittedState
from engine.state import provider_of
from engine.state.changes import Changes, NamespaceChanges, frames, rows_in
from engine.state.codec import MessagePack
from engine.state.namespaces import name_of, stored_prefix
from engine.testing import Capture
from tests.processes import stateful_bolts as bolts
from tests.processes.test_deaths import until
from tests.processes.test_state import play

pytestmark = pytest.mark.guarantee("CP-12", "CP-13", "PR-1")
NUMBERS = 1000


def topology(provider: str, capture: Capture | None = None) -> Any:
    """Return a topology that counts the keys of each hundred numbers, in two processes. Every seventh number fails for good."""

    @spout("number", "key", repeatable=True, max_retries=0)
    def numbers() -> Any:
        yield from ((number, number % 50) for number in range(NUMBERS))

    settings = Config(state_provider=provider, state_checkpoint_interval_ms=20, max_spout_pending=50)
    builder = TopologyBuilder("counts", settings)
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolts.DropsNamespaces, parallelism=2, processes=True).fields_grouping("numbers", "key")
    if capture is not None:
        builder.set_bolt("seen", capture).shuffle_grouping("count")
    return builder.build()


def stored(url: str) -> dict[Any, dict[Any, Any]]:
    """Return the committed keys of each namespace."""

    async def read() -> dict[Any, dict[Any, Any]]:
        found: dict[Any, dict[Any, Any]] = {}
        async with provider_of(url).inventory().look("counts") as looked:
            async for rows in (await CommittedState.of(looked, "counts")).rows("count"):
                for row in rows:
                    prefix, codec = stored_prefix(row.key), MessagePack()
                    found.setdefault(name_of(prefix), {})[codec.decode(row.key[len(prefix) :])] = codec.decode(row.value or b"")
        return found

    return asyncio.run(read())


def expected() -> dict[Any, dict[Any, Any]]:
    """Return the counts that are left: those of the last two hundreds."""
    first = NUMBERS // 100 - 2
    counts = {pane: Counter(n % 50 for n in range(100 * pane, 100 * pane + 100) if n % 7) for pane in (first, first + 1)}
    return {pane: dict(counted) for pane, counted in counts.items()}


def test_drops_in_processes_reach_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(play(topology(url)))
    assert stored(url) == expected()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_kills_of_children_bring_nothing_dropped_back(seed: int, tmp_path: Path) -> None:
    url, capture, draw = f"sqlite:///{tmp_path}/state.db", Capture(), random.Random(seed)

    async def kill(run: Any) -> None:
        for _ in range(4):
            await until(lambda: capture.values)
            await asyncio.sleep(draw.uniform(0, 0.3))
            if run.state == "running":
                try:
                    os.kill(draw.choice(sorted({pid for _, _, pid in capture.values[-300:]})), signal.SIGKILL)
                except ProcessLookupError:
                    continue

    asyncio.run(play(topology(url, capture), kill))
    assert stored(url) == expected()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_have_all_changes_and_are_bounded(size: int) -> None:
    namespaces = {number: NamespaceChanges({n: n for n in range(number)}, number % 2 == 1) for number in range(1, 6)}
    changes = Changes({"a": 1, "b": 2}, {**namespaces})
    changes.namespaces["gone"] = NamespaceChanges({}, True)
    taken, numbers = Changes(), count()
    for frame in frames(changes.entries(), lambda: size):
        next(numbers)
        assert 0 < rows_in(frame) <= size
        for part in pickle.loads(pickle.dumps(frame)):
            taken.add(part)
    assert taken == changes
    assert next(numbers) == -(-len(changes_rows(changes)) // size)


def changes_rows(changes: Changes) -> list[Any]:
    return [key for _, _, layer in changes.parts() for key in layer or [None]]
