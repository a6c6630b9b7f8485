"""Scenarios of a row that kills its task or its process, or hangs (EO-6).

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
from collections import Counter
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest

from engine import ComponentError, FatalError, StatefulBurstBolt, Tuple
from engine.checkpoint import failed_rows
from engine.checkpoint.one_by_one import OneByOne
from engine.checkpoint.source_task import SourceTask
from tests.checkpoint.scenarios.kit import FAST, Numbers, Tally, Told, counted

Patch: TypeAlias = pytest.MonkeyPatch


# 15: a row kills its task


class DiesOfFive(Tally):
    """Its task dies of the row 5."""

    on_error = "restart"

    def execute(self, tup: Tuple) -> None:
        if tup["n"] == 5:
            raise ValueError("five")
        super().execute(tup)


def a_row_kills_its_task() -> Counter[Any]:
    return counted(partial(Numbers, 40), count=DiesOfFive, config=FAST.replace(max_task_restarts=20), limit_secs=100)


def deaths_do_not_count(patch: Patch) -> None:
    patch.setattr(SourceTask, "note_failed", lambda self, row, failure, *, had_no_effect: None)


class KillsItsBurst(StatefulBurstBolt):
    """Counts bursts of rows. Its task dies of the row 35, and takes its burst along."""

    on_error = "restart"

    def __init__(self, told: Told) -> None:
        self.told = told

    def execute_many(self, burst: Any) -> None:
        for n in burst["n"]:
            if n == 35:
                raise ValueError("35")
            self.state.put(n, self.state.get(n, 0) + 1)

    def cleanup(self) -> None:
        self.told.note(self)


def a_row_kills_its_burst() -> Counter[Any]:
    config = FAST.replace(max_task_restarts=1000)
    return counted(partial(Numbers, 40, burst=10, pace_secs=0.2), count=KillsItsBurst, config=config, limit_secs=200)


class HangsAtFive(Tally):
    """Hangs in the call of the row 5, while the rows behind it wait in the mailbox."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        if tup["n"] == 5:
            await asyncio.sleep(100_000)
        super().execute(tup)


def a_row_hangs() -> Counter[Any]:
    return counted(partial(Numbers, 40), count=HangsAtFive, limit_secs=1000)


def all_rows_that_die_count(patch: Patch) -> None:
    patch.setattr(failed_rows, "ALONE_AFTER", frozenset())


class EndsTheProcess(Tally):
    """Its process ends with the row 5."""

    def execute(self, tup: Tuple) -> None:
        if tup["n"] == 5:
            raise FatalError("five", hint="none")
        super().execute(tup)


def a_row_ends_the_process() -> Counter[Any]:
    """A supervisor begins the process again, at most ten times."""
    with TemporaryDirectory() as folder:
        config = FAST.replace(state_provider=f"sqlite:///{folder}/state.db")
        for _ in range(10):
            try:
                return counted(partial(Numbers, 40), count=EndsTheProcess, config=config, limit_secs=100)
            except ComponentError as error:
                assert "five" in str(error)  # noqa: PT017 - a scenario, in which only this error is expected
        raise FatalError("the process ends again and again", hint="none")


def no_row_is_named_before_it_goes(patch: Patch) -> None:
    patch.setattr(OneByOne, "take_up", lambda self, entries, topology_name: None)
