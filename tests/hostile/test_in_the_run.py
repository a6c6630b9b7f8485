"""Misdeeds at every place, for every form of component, in virtual time."""

from itertools import count

import pytest

from tests.hostile.campaign import judge, play_case
from tests.hostile.case import Case
from tests.hostile.forms import FORMS
from tests.hostile.misdeeds import MISDEEDS, Misdeed
from tests.hostile.surroundings import SURROUNDINGS
from tests.runtime.stage import play

pytestmark = pytest.mark.guarantee("RUN-6", "ACK-17")

PAIRS = [(place, form) for place in SURROUNDINGS for form in FORMS]
SHORT = [pair for number, pair in enumerate(PAIRS) if (number + number // len(FORMS)) % max(SURROUNDINGS[pair[0]].every, 1) == 0]
"""Pairs of the short test. Places beside each other take different forms."""
STEP = 11
"""One pair in so many meets each misdeed in the deep test. It divides neither the number of places nor that of forms."""


def play_and_judge(place: str, form: str, misdeed: Misdeed, scenario: str) -> None:
    case = Case(place, misdeed, scenario)
    try:
        judge(case, FORMS[form], play(lambda: play_case(case, FORMS[form])))
    except BaseException as error:
        error.add_note(f"{place} · {misdeed} · {form} · {scenario}")
        raise


@pytest.mark.parametrize(("place", "form"), SHORT)
def test_a_misdeed_costs_nothing_but_its_own_call(place: str, form: str) -> None:
    first = PAIRS.index((place, form))
    turns, scenarios = count(first), FORMS[form].scenarios  # each pair begins with another misdeed
    for scenario in [scenarios[first % len(scenarios)]] if SURROUNDINGS[place].every else scenarios:
        play_and_judge(place, form, MISDEEDS[next(turns) % len(MISDEEDS)], scenario)


@pytest.mark.deep
@pytest.mark.parametrize(("turn", "misdeed"), list(enumerate(MISDEEDS)), ids=str)
def test_every_misdeed_at_many_places(turn: int, misdeed: Misdeed) -> None:
    for number, (place, form) in enumerate(PAIRS[turn % STEP :: STEP]):
        scenarios = FORMS[form].scenarios
        play_and_judge(place, form, misdeed, scenarios[number % len(scenarios)])
