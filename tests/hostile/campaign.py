"""Runs one case of the campaign, and judges it: the run ends as without the misdeed, and each tuple has one verdict."""

import asyncio
from dataclasses import dataclass, field

import engine
from engine import ComponentError, Config, Run
from engine.names import ACKER_COMPONENT
from tests.hostile.case import NUMBERS, RAISES, Case, Verdicts
from tests.hostile.forms import SCENARIOS, Form
from tests.hostile.metrics import judge_metrics

PATIENCE_SECS = 600


@dataclass
class Outcome:
    """What came of a run."""

    run: Run
    verdicts: Verdicts
    ended: list[ComponentError | None] = field(default_factory=list)
    """Arguments of a friendly callback of `on_end`, added after the hostile ones."""
    reports: list[str] = field(default_factory=list)
    """Reports that a friendly listener got, added after the hostile ones."""
    raised: ComponentError | None = None
    completed: ComponentError | None = None


async def play_case(case: Case, form: Form, *, processes: bool = False) -> Outcome:
    """Run a case to its end."""
    verdicts = Verdicts()
    topology = form.build(case, verdicts, processes)
    with case.surroundings.around(case.misdeed):
        run = engine.run(topology, Config(seed=1, **SCENARIOS[case.scenario].config))
        outcome = Outcome(run, verdicts)
        case.surroundings.on_run(run, case.misdeed)
        run.on_end(outcome.ended.append)
        run.on_report.append(lambda report: outcome.reports.append(report.text))
        try:
            async with asyncio.timeout(PATIENCE_SECS), run:
                if form.drive is not None:
                    await form.drive(run, case, verdicts)
                try:
                    await run.completed()
                except ComponentError as error:
                    outcome.completed = error
        except ComponentError as error:
            outcome.raised = error
        judge_metrics(run)
    return outcome


def judge(case: Case, form: Form, outcome: Outcome) -> None:
    """Raise AssertionError unless the run went as without the misdeed."""
    expected, run, verdicts = SCENARIOS[case.scenario], outcome.run, outcome.verdicts
    assert run.state == expected.state
    assert outcome.ended == [run.error]
    assert outcome.raised is outcome.completed is run.error
    assert (run.error is not None) == (expected.state == "failed")
    components = run.snapshot().components
    assert {name: each.restarts for name, each in components.items() if each.restarts} == ({"work": 1} if expected.restarts else {})
    assert outcome.reports or not expected.is_reported
    settled = sorted(verdicts.acked + verdicts.failed)
    assert len(settled) == len(set(settled)), "a number has two verdicts"
    if expected.state == "complete":
        assert not any(each.pending for name, each in components.items() if name != ACKER_COMPONENT)  # it may keep late acks
        if form.hears_acks:
            assert settled == list(range(NUMBERS))
            assert set(expected.failed) == set(verdicts.failed) if expected.failed is not None else RAISES in verdicts.failed
        else:
            source = components["source"]
            assert source.acked + source.failed == source.emitted
            assert not form.repeats or source.acked >= NUMBERS  # acks wait for no commit, so repeated rows are acked again (EO-4)
