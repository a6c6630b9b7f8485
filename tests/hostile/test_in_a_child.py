"""Misdeeds in a child process and around it, for the forms of bolts that may run there. In real time."""

import asyncio

import pytest

from tests.hostile.campaign import judge, play_case
from tests.hostile.case import Case
from tests.hostile.forms import FORMS
from tests.hostile.misdeeds import MISDEEDS
from tests.hostile.surroundings import SURROUNDINGS

pytestmark = pytest.mark.guarantee("RUN-6", "PR-1", "ACK-17")

IN_CHILD = [name for name, form in FORMS.items() if form.in_child]
SLOW = ("times out", "drains")
"""Scenarios that wait for a timeout."""


def play_and_judge(place: str, form: str, turn: int) -> None:
    scenarios = [scenario for scenario in FORMS[form].scenarios if scenario not in SLOW]
    case = Case(place, MISDEEDS[turn % len(MISDEEDS)], scenarios[turn % len(scenarios)])
    try:
        judge(case, FORMS[form], asyncio.run(play_case(case, FORMS[form], processes=True)))
    except BaseException as error:
        error.add_note(f"{place} · {case.misdeed} · {form} · {case.scenario}")
        raise


@pytest.mark.parametrize(("turn", "place"), list(enumerate(SURROUNDINGS)))
def test_a_misdeed_at_every_place(turn: int, place: str) -> None:
    play_and_judge(place, IN_CHILD[turn % len(IN_CHILD)], turn)


@pytest.mark.parametrize(("turn", "form"), list(enumerate(IN_CHILD)))
def test_misdeeds_everywhere_for_every_form(turn: int, form: str) -> None:
    play_and_judge("everything", form, turn)


@pytest.mark.deep
@pytest.mark.parametrize("place", [place for place, each in SURROUNDINGS.items() if not each.method])
def test_more_forms_at_every_place(place: str) -> None:
    first = list(SURROUNDINGS).index(place)
    for turn, form in list(enumerate(IN_CHILD))[first % 4 :: 4]:
        play_and_judge(place, form, turn + first + 4)
