"""kill -9 at each step of a publication and at random: each row is applied exactly once (TX-12)."""

import random
import secrets
from pathlib import Path

import pytest

from tests.kills.rounds import AT_AN_INSTANT, Killed, KilledTopology, play
from tests.transactional.sql.killing import STEPS, VISITS, Death, Places, steps_of
from tests.transactional.sql.places import Place

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300), pytest.mark.guarantee("TX-12")]

INSTANTS = 10


class KilledVisits(KilledTopology[Killed, Death]):
    """The processes of one round."""

    module = "tests.transactional.sql.killing"
    to_its_end = Death()

    def __init__(self, place: Place, tasks: int, folder: Path) -> None:
        self.place = place
        places = Places(kind=place.kind, url=place.url, state=f"sqlite:///{folder}/state.db", tasks=tasks)
        super().__init__(Killed(f"{place.kind}, {tasks} tasks"), places, folder)

    async def judge(self) -> None:
        found = await self.place.rows()
        if found != sorted(VISITS):
            lost, more = set(VISITS) - set(found), len(found) - len(set(found))
            self.killed.violations.append(f"{len(lost)} rows are lost, {more} are doubled: {sorted(lost)[:5]}")


def drawn(step: str, draws: random.Random) -> Death:
    """Return a death at a step."""
    at = 1 if "open" in step else draws.choice([1, 2])
    return Death(step=step, at=at, flight_secs=draws.choice([0.0003, 0.001, 0.003]))


@pytest.mark.parametrize("tasks", [1, 2])
async def test_killed_at_steps_and_at_random_each_row_is_applied_once(place: Place, tasks: int, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    steps = [drawn(name, draws) for name in steps_of(place.kind)]
    draws.shuffle(steps)
    deaths = [*steps, *(Death(secs=draws.uniform(0, 0.15), pending=draws.choice([1, 4])) for _ in range(INSTANTS))]

    killed = await play(KilledVisits(place, tasks, tmp_path), deaths)

    assert killed.violations == []
    assert set(killed.deaths) - {AT_AN_INSTANT} == set(steps_of(place.kind))


def test_the_steps_of_both_databases_are_all_steps() -> None:
    assert {*steps_of("sqlite"), *steps_of("postgres")} == set(STEPS)
