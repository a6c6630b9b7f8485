"""Keys that a map of values will never take: only their rows are given up, and nothing waits for them for ever (EO-6, EO-9)."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import TopologyBuilder, Tuple, spout
from engine.dead_letters import DeadLettersEntry
from engine.testing import Finished, run_topology
from engine.transactional.values import ReduceInto, ReducingCommitter, SqliteValues
from tests.checkpoint.scenarios.kit import FAST

GOOD = [("de", "a"), ("fr", "a"), ("de", "a")]
KEY = ("country", "plan")
BAD: dict[str, list[tuple[Any, Any]]] = {
    "the first key is None": [(None, "a"), *GOOD],
    "a later key is None": [*GOOD[:2], (None, "a"), GOOD[2]],
    "a later key has another type": [*GOOD, (1, "a")],
    "a text that no column takes": [*GOOD, ("a\0", "b")],
    "several": [(None, "a"), *GOOD, ("de", None), (b"x", "a")],
}
cases = pytest.mark.parametrize("rows", BAD.values(), ids=list(BAD))


class OwnReduction(ReducingCommitter[Any, int, int]):
    """Keeps its partial results by itself."""

    keyed_by = KEY

    def __init__(self, values: SqliteValues) -> None:
        self.values = values

    def execute(self, tup: Tuple) -> None:
        self.partials[self.key(tup)] = self.partials.get(self.key(tup), 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return (stored or 0) + partial


class WritesItself(OwnReduction):
    """Has its rows staged, because it overrides `finish_batch`."""

    async def finish_batch(self) -> None:
        await super().finish_batch()


def committer(kind: str, values: SqliteValues) -> Any:
    match kind:
        case "counts":
            return ReduceInto(values, key=KEY)
        case "own":
            return lambda: OwnReduction(values)
        case _:
            return lambda: WritesItself(values)


def stored(path: Path) -> Counter[tuple[str, str]]:
    with closing(sqlite3.connect(path / "totals.db")) as connection:
        rows = connection.execute("SELECT country, plan, value FROM totals")
        return Counter({(country, plan): int(value) for country, plan, value in rows})


def letters(result: Finished) -> int:
    entry = result.snapshot.entry(DeadLettersEntry).value
    return 0 if entry is None else entry.stored


@cases
@pytest.mark.parametrize("kind", ["counts", "own", "rows"])
@pytest.mark.guarantee("EO-6", "EO-9")
def test_only_the_rows_with_these_keys_become_dead_letters(kind: str, rows: Sequence[Any], tmp_path: Path) -> None:
    @spout(*KEY, positions=True)
    def source(after: Any) -> Any:
        yield from ((number, row) for number, row in enumerate(rows, 1) if number > (after or 0))

    builder = TopologyBuilder("totals", FAST.replace(state_provider=f"sqlite:///{tmp_path}/state.db"))
    builder.set_spout("rows", source)
    builder.set_committer("totals", committer(kind, SqliteValues(tmp_path / "totals.db", "totals"))).fields_grouping("rows", *KEY)
    result = run_topology(builder.build(), limit_secs=2000)
    assert stored(tmp_path) == Counter(GOOD)
    assert letters(result) == len(rows) - len(GOOD)
