"""Keys that a map of values will never take, in a topology without batches: they become dead letters (EO-9, TX-8)."""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from engine import Config, TopologyBuilder, spout
from engine.dead_letters import letters_in
from engine.state.codec import MessagePack
from engine.testing import KillTask, run_topology
from engine.transactional.values import ReduceInto, SqliteValues
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider

ROWS = 200
COUNTRIES = ("de", "fr", None, "de", 7, "it", "de", "a\0b")


@spout("country", "n", positions=True)
async def countries(after: int | None) -> AsyncIterator[tuple[int, tuple[Any, int]]]:
    for n in range(after or 0, ROWS):
        await asyncio.sleep(0.02)
        yield n + 1, (COUNTRIES[n % 8], n % 2)


class Slow(Conditions):
    """Every step takes the same time."""

    async def pass_time(self) -> None:
        await asyncio.sleep(0.15)


@pytest.mark.guarantee("EO-9", "TX-8")
@pytest.mark.parametrize("killed", [None, "out", "numbers"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_keys_that_a_map_refuses_become_letters_and_the_others_are_published(tasks: int, killed: str | None, tmp_path: Path) -> None:
    disk, builder = Disk(), TopologyBuilder("countries")
    IN_USE["countries"] = SlowProvider(disk, Slow(random.Random(1)), resident=False)
    totals = ReduceInto(SqliteValues(tmp_path / "t.db", "totals"), key=("country", "n"))
    builder.set_spout("numbers", countries)
    builder.set_committer("out", totals, tasks).fields_grouping("numbers", "country", "n")
    config = Config(state_provider="tests.checkpoint.slow_store:provider?countries", state_checkpoint_interval_ms=100)
    result = run_topology(builder.build(), config, faults=[] if killed is None else [KillTask(killed, at_secs=2.7)])

    assert result.state == "complete"
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        stored = {(country, n): value for country, n, value in connection.execute("SELECT country, n, value FROM totals")}
    given = Counter((COUNTRIES[n % 8], n % 2) for n in range(ROWS))
    letters: Counter[tuple[Any, int]] = Counter()
    for letter in letters_in(disk.ledgers["$checkpoint"]).values():
        country, n, count = cast(Any, MessagePack().decode(letter.row.encoded or b""))
        letters[country, n] += count
        assert letter.component_id == "out"
        assert letter.is_processed
    assert {country for country, _ in letters} == {None, 7, "a\0b"}
    assert stored | letters == given
