"""The killer notices a process that does not begin."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kills import rounds
from tests.kills.lives import Death


@dataclass(frozen=True)
class Places:
    """A step that no process reaches."""


class NeverBegins(rounds.KilledTopology[rounds.Killed, Death]):
    module = "tests.kills.test_rounds"
    to_its_end = Death()

    async def judge(self) -> None:
        return


@pytest.mark.parametrize("death", [Death(secs=0.01), Death()], ids=["at an instant", "at its end"])
async def test_a_process_that_does_not_begin_is_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: Death) -> None:
    monkeypatch.setattr(rounds, "MOST_SECS", 0.3)
    topology = NeverBegins(rounds.Killed("here"), Places(), tmp_path)
    await topology.die(death)
    [violation] = topology.killed.violations
    assert "was not over after 0.3 s, and was killed" in violation


if __name__ == "__main__":  # a process that hangs before it begins
    sys.stdin.read()
