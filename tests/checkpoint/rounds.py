"""Kills one topology with state again and again, at a step of a checkpoint or at a random instant."""

import random
from collections.abc import Sequence
from pathlib import Path

from engine.state import StatePlace, provider_of
from tests.checkpoint.killed import faults_of
from tests.checkpoint.killing import TOPOLOGY, Places
from tests.checkpoint.stored_states import read_at_start, read_with_tools
from tests.kills.lives import Death
from tests.kills.rounds import Killed, KilledTopology

TASKS = [StatePlace(component_id, index, 2, True, 128) for component_id in ("first", "second") for index in range(2)]


class KilledCheckpoints(KilledTopology[Killed, Death]):
    """Runs the processes, and judges the final state. `url` is the store, and `bolts` the variant of the bolts."""

    module = "tests.checkpoint.killing"
    to_its_end = Death()
    places: Places

    def __init__(self, folder: Path, url: str, messages: int, bolts: str = "plain") -> None:
        places = Places(folder=str(folder), messages=messages, state=url, bolts=bolts)
        super().__init__(Killed(f"{url.partition(':')[0]}, {bolts}"), places, folder)

    async def judge(self) -> None:
        provider = provider_of(self.places.state)
        await provider.open(TOPOLOGY)
        try:
            self.killed.violations += await faults_of(self.folder, self.places.messages, provider)
        finally:
            await provider.close()


class ComparedWithTools(KilledCheckpoints):
    """Also compares, after each death, the state that the tools read with the state that the next start restores (CP-7)."""

    async def after_life(self) -> None:
        before = self.stored()
        looked = await read_with_tools(self.places.state, TOPOLOGY)
        if self.stored() != before:
            self.killed.violations.append("the tools have written to the store")
        if looked != await read_at_start(self.places.state, TOPOLOGY, TASKS):
            self.killed.violations.append("the tools do not find what the next start finds")

    def stored(self) -> object:
        """Return the contents of the store's files, without the index of a log, which each reader rebuilds."""
        return {path.name: path.read_bytes() for path in self.folder.glob("state.db*") if not path.name.endswith("-shm")}


def deaths_at(steps: Sequence[str], draws: random.Random) -> list[Death]:
    """Return one death at each step, in random order, at its first or second time."""
    return [Death(step=step, at=draws.choice([1, 2])) for step in draws.sample(steps, len(steps))]
