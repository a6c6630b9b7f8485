"""How many rows go alone after processes have died before a commit, and what the warning says (EO-6)."""

import asyncio
import random
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from engine import ComponentError, FatalError, Tuple
from engine.checkpoint import one_by_one, source_task
from tests.checkpoint.scenarios.kit import FAST, Numbers, Tally, Told, counted, once
from tests.checkpoint.slow_store import IN_USE, Disk, SlowProvider
from tests.checkpoint.test_slow_writes import AlwaysSlow

ROWS = 200
ALONE = 40
KEPT = 8
pytestmark = pytest.mark.guarantee("EO-6")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fewer rows go alone."""
    monkeypatch.setattr(one_by_one, "ROWS_OF_A_START", ALONE)
    monkeypatch.setattr(source_task, "MOST_KEPT", KEPT)


class Ends(Tally):
    """Ends the process at some rows, each a limited number of times."""

    def __init__(self, told: Told, ends: Counter[int]) -> None:
        super().__init__(told)
        self.ends = ends

    def execute(self, tup: Tuple) -> None:
        if self.ends[tup["n"]] > 0:
            self.ends[tup["n"]] -= 1
            raise FatalError("the end", hint="none")
        super().execute(tup)


def lives(folder: Path, ends: dict[int, int], most: int = 20) -> tuple[int, Counter[int]]:
    """Run processes until one is complete. Return the number of those that have ended before, and what was counted.

    ends: how often each of these rows ends a process.
    """
    config, left = FAST.replace(state_provider=f"sqlite:///{folder}/state.db"), Counter(ends)
    for deaths in range(most):
        try:
            return deaths, counted(partial(Numbers, ROWS, burst=4), count=partial(Ends, ends=left), config=config)
        except ComponentError as error:
            assert "the end" in str(error)  # noqa: PT017 - only this error is expected
    raise AssertionError(f"{most} processes have ended")


def told_rows(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return how many rows go alone, as each warning says."""
    return [int(rows) for rows in re.findall(r"So up to (\d+) rows go one at a time", caplog.text)]


def test_processes_that_end_for_other_reasons_do_not_let_more_and_more_rows_go_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process is ended by another row, as by somebody who kills it: three before their first commit, and three while rows go alone."""
    deaths, counts = lives(tmp_path, {0: 3, 1: 1, 2: 1, 20: 1})
    assert deaths == 6
    *before, last = told_rows(caplog)
    assert before == [ALONE] * 3
    assert ALONE - 3 * KEPT < last < ALONE, "what the process before has not committed"
    assert counts == once(ROWS)
    told = "the last 3 processes have ended before they had committed rows that went together, by a kill, a death or an error"
    assert told in caplog.text


def test_a_row_behind_those_that_went_alone_is_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    deaths, counts = lives(tmp_path, {150: 100})
    assert counts == once(ROWS) - Counter([150])
    assert told_rows(caplog)[:2] == [ALONE, 4 * ALONE]
    assert deaths <= 3 + 1 + 3 + 1, "one behind the rows that went alone, three with its name, and one whose pass a commit makes forgotten"


def test_a_checkpoint_comes_after_the_first_rows_that_went_alone() -> None:
    """Given a slow store, rows that take long, and processes that are killed after a while, each process gets further."""

    class TakesLong(Tally):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1)
            if tup["n"] in ends:
                ends.remove(tup["n"])
                raise FatalError("the end", hint="none")
            super().execute(tup)

    IN_USE["cautious"] = SlowProvider(Disk(), AlwaysSlow(random.Random(1)), resident=False)
    config = FAST.replace(state_provider="tests.checkpoint.slow_store:provider?cautious")
    ends, asked = [0, 0, 0, 3 * KEPT], list[int | None]()

    class Asked(Numbers):
        def seek(self, position: int | None) -> None:
            asked.append(position)
            super().seek(position)

    for _ in range(4):
        with pytest.raises(ComponentError, match="the end"):
            counted(partial(Asked, ROWS, burst=4, pace_secs=0.01), count=TakesLong, config=config)
    assert counted(partial(Asked, ROWS, burst=4, pace_secs=0.01), count=TakesLong, config=config, limit_secs=1000) == once(ROWS)
    assert asked[:4] == [None] * 4
    assert asked[-1] is not None
    assert asked[-1] >= KEPT


def test_an_ordinary_commit_ends_the_caution(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lives(tmp_path, {0: 3})
    caplog.clear()
    config = FAST.replace(state_provider=f"sqlite:///{tmp_path}/state.db")
    assert counted(partial(Numbers, ROWS + 50, burst=4), count=Tally, config=config) == once(ROWS + 50)
    assert told_rows(caplog) == []
