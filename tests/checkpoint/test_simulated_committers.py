"""Simulated topologies with committers: what their plans contain, and that their judge can fail (EO-9)."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

import pytest

from engine.checkpoint.staged_output import StagedOutputs, StagedTask
from engine.transactional.interval_bolt import IntervalBolt, IntervalFactory
from tests.checkpoint.committer_world import STEPS
from tests.checkpoint.plan import draw_plan
from tests.checkpoint.simulate import simulate

MOST_SEEDS = 60
Patch: TypeAlias = pytest.MonkeyPatch


def test_a_third_of_the_plans_with_sources_that_rewind_have_a_committer_of_any_kind_with_any_fault() -> None:
    plans = [plan for plan in (draw_plan(seed, is_calm=False) for seed in range(300)) if any(each.rewinds for each in plan.world.sources)]
    committing = [plan for plan in plans if plan.committer is not None]
    committers = [plan.committer for plan in committing if plan.committer is not None]
    faults = [process.of_committer for plan in committing for process in plan.processes]

    assert 0.28 < len(committing) / len(plans) < 0.42
    assert {each.kind for each in committers} == {"rows", "pieces", "values"}
    assert {bool(each.retries) for each in committers} == {bool(each.refuses_every) for each in committers} == {False, True}
    assert {process.tasks["out"] for plan in committing for process in plan.processes} == {1, 2, 3}
    assert any(len({process.tasks["out"] for process in plan.processes}) > 1 for plan in committing)
    assert {strike.step for each in faults for strike in each.strikes} == {*STEPS}
    assert {strike.victim for each in faults for strike in each.strikes} == {"out", None}
    assert any(each.kills for each in faults)
    assert any(each.fails for each in faults)


def each_try_has_an_attempt_of_its_own(patch: Patch) -> None:
    """Publish with another attempt id each time. So the target takes a second try for other rows."""
    publish, attempt_ids = IntervalBolt.publish, count(1_000_000)
    patch.setattr(IntervalBolt, "publish", lambda self, output: publish(self, replace(output, round=next(attempt_ids))))


def the_first_output_of_a_txid_stays(patch: Patch) -> None:
    """Publish what the first PREPARE of a txid has staged, although it may have been rolled back."""

    async def stage(self: Any, output: StagedTask) -> None:
        before = self._unpublished.get(output.task_index)
        await staged(self, output)
        if before is not None and before.txid == output.txid:
            self._unpublished[output.task_index] = before

    staged = StagedOutputs.stage
    patch.setattr(StagedOutputs, "stage", stage)


def a_new_process_publishes_nothing_of_before(patch: Patch) -> None:
    """Take a commit for published at the start of a process, although it may only be decided."""

    async def open_and_forget(self: Any, *arguments: Any) -> None:
        await opened(self, *arguments)
        self._unpublished.clear()

    opened = StagedOutputs.open
    patch.setattr(StagedOutputs, "open", open_and_forget)


def refused_rows_are_forgotten(patch: Patch) -> None:
    """Leave out the rows that the target refuses, and keep no dead letters of them."""
    leave_out = StagedOutputs.leave_out
    patch.setattr(StagedOutputs, "leave_out", lambda self, index, rows, entries: leave_out(self, index, rows, {}))


def only_sources_that_rewind_are_known(patch: Patch) -> None:
    """Keep no rows for an interval that counts although a call has raised."""
    create = IntervalFactory.create
    patch.setattr(IntervalFactory, "create", lambda self: create(replace(self, may_count_with_failures=False)))


@pytest.mark.guarantee("EO-9")
@pytest.mark.parametrize(
    ("mutant", "sign"),
    [
        (each_try_has_an_attempt_of_its_own, " is published or refused 2 times, not 1"),
        (the_first_output_of_a_txid_stays, " is published, which is not the attempt that is committed"),
        (a_new_process_publishes_nothing_of_before, " is published or refused 0 times, not "),
        (refused_rows_are_forgotten, " is published or refused 0 times, not "),
        (only_sources_that_rewind_are_known, " is published or refused "),
    ],
)
def test_the_judge_finds_a_simpler_rule(mutant: Callable[[Patch], None], sign: str, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    seeds = [seed for seed in range(1000, 1000 + MOST_SEEDS) if draw_plan(seed, is_calm=False).committer is not None]
    found = (violation for seed in seeds for violation in simulate(seed, is_calm=False).violations)
    assert any(sign in violation for violation in found)
