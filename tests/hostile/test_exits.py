"""Code around a run that ends the program, and when it is called: after a run has begun to end, never before."""

import asyncio
import logging
from typing import Any

import pytest

import engine
from engine import ComponentError, Run
from tests.hostile.bolts import Basic
from tests.hostile.campaign import play_case
from tests.hostile.case import Case, Verdicts
from tests.hostile.forms import FORMS, rows
from tests.hostile.misdeeds import EXITS, MISDEEDS, Misdeed
from tests.hostile.sources import Source
from tests.hostile.surroundings import SURROUNDINGS, harmless_call, root_handler
from tests.runtime.stage import play

pytestmark = pytest.mark.guarantee("RUN-6")

NO_EXIT = ("coroutines", "names of attributes", "callbacks that cancel")
"""Places that call no misdeed, or a second one while the program ends. That one breaks off the end, as a second Ctrl-C does."""
PLACES = [place for place, each in SURROUNDINGS.items() if not each.method and each.in_call is harmless_call and place not in NO_EXIT]
PAIRS = [(place, scenario) for place in PLACES for scenario in ("fails", "ends") if (place, scenario) != ("on_report", "ends")]
"""The error that ends a run is not reported, so no listener is called."""


@pytest.mark.parametrize("misdeed", EXITS, ids=str)
@pytest.mark.parametrize(("place", "scenario"), PAIRS)
def test_an_exit_ends_the_program_and_the_run(place: str, misdeed: Misdeed, scenario: str) -> None:
    case, form = Case(place, misdeed, scenario), FORMS["BasicBolt"]
    runs: list[Run] = []

    async def main() -> None:
        topology = form.build(case, Verdicts(), False)
        runs.append(engine.run(topology))
        case.surroundings.on_run(runs[0], misdeed)
        runs[0].on_end(ended.append)
        async with runs[0]:
            await runs[0].completed()
        await asyncio.sleep(60)

    ended: list[ComponentError | None] = []
    assert misdeed.error is not None
    with case.surroundings.around(misdeed), pytest.raises(misdeed.error):
        asyncio.run(main())  # it cancels what is left, as in a program
    assert runs[0].state in ("complete", "stopped", "failed")
    assert ended == [runs[0].error]


@pytest.mark.parametrize("misdeed", MISDEEDS, ids=str)
def test_a_run_that_fails_begins_to_end_before_it_is_logged(misdeed: Misdeed) -> None:
    seen: list[Any] = []

    class Looks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.CRITICAL:
                run.on_end(lambda error: seen.append(error))  # at once, because the end is known
                seen.append(any(aio_task.get_name() == "close (failed)" for aio_task in asyncio.all_tasks()))
                misdeed()

    case = Case("on_end", misdeed, "ends")
    run: Run

    async def main() -> None:
        nonlocal run
        run = engine.run(rows(Source, Basic, case, Verdicts(), False))
        with pytest.raises(ComponentError):
            async with run:
                await run.completed()

    with root_handler(Looks()):
        play(main)
    assert seen == [run.error, True]


def test_every_listener_is_called_although_an_earlier_one_raises() -> None:
    outcome = play(lambda: play_case(Case("on_report", MISDEEDS[2], "fails"), FORMS["BasicBolt"]))
    assert len(outcome.reports) == 2
    assert [report.text for report in outcome.run.snapshot().errors] == outcome.reports
