"""Faults of a simulated Spark, drawn from a seed."""

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from spark_bridge.topology.level_status import LevelStatus

CHANCES: Final = (0.0, 0.02, 0.1, 0.3)
WAIT_SECS: Final = (0.0, 0.05, 1.0)
DAMAGES: Final = ("damaged file", "shorter file", "missing file")


@dataclass(kw_only=True)
class Trouble:
    """Chances of the faults of one process."""

    draws: random.Random
    computes_twice: float = 0.0
    """Chance that Spark computes a partition twice."""
    mixes: bool = False
    """Whether partitions then read from both computations."""
    loses: float = 0.0
    """Chance that a computed partition is lost before it is read."""
    fails: float = 0.0
    """Chance that a job fails, before, in, or after a partition."""
    dies: float = 0.0
    """Chance that Spark dies at such a moment."""
    damages: float = 0.0
    """Chance that a result file of a job is damaged."""
    lives_on: float = 0.0
    """Chance that a cancelled job does not end."""
    wait_secs: float = 0.0
    """Longest delay of a job, or of a partition."""
    struck: Counter[str] = field(default_factory=Counter)

    def happens(self, chance: float, name: str) -> bool:
        """Draw whether a fault takes place."""
        if chance and self.draws.random() < chance:
            self.struck[name] += 1
            return True
        return False

    async def wait(self) -> None:
        """Wait, or not."""
        if self.wait_secs and self.draws.random() < 0.3:
            await asyncio.sleep(self.wait_secs * self.draws.random() ** 2)

    def damage(self, statuses: list[LevelStatus]) -> None:
        """Perhaps damage a result file."""
        files = [each for status in statuses for each in status.files]
        if files and self.happens(self.damages, how := self.draws.choice(DAMAGES)):
            path = self.draws.choice(files).path
            if how == "missing file":
                os.remove(path)
                return
            with open(path, "rb+") as file:
                size = os.path.getsize(path)
                if how == "shorter file":
                    file.truncate(size // 2)
                else:
                    file.seek(size // 2)
                    [byte] = file.read(1)
                    file.seek(size // 2)
                    file.write(bytes([byte ^ 1]))


def draw_trouble(draws: random.Random, *, is_calm: bool) -> Trouble:
    """Draw the faults of one process."""
    if is_calm:
        return Trouble(draws=draws)
    return Trouble(
        draws=draws,
        computes_twice=draws.choice(CHANCES),
        mixes=draws.random() < 0.5,
        loses=draws.choice(CHANCES),
        fails=draws.choice(CHANCES[:3]),
        dies=draws.choice((0.0, 0.0, 0.01, 0.05)),
        damages=draws.choice(CHANCES),
        lives_on=draws.choice((0.0, 0.5)),
        wait_secs=draws.choice(WAIT_SECS),
    )
