"""kill -9 of real processes, again and again on one store, until their topology is complete and can be judged (CP-10).

python -m tests.soak.kills SEED sqlite     plays the round of a seed again: the same deaths, at about the same instants
"""

import argparse
import asyncio
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from engine.state import provider_of
from tests.checkpoint.killed import faults_of, times_emitted
from tests.checkpoint.killing import STEPS, lines_of

Store: TypeAlias = Literal["sqlite", "redis"]
STORES: Final[tuple[Store, ...]] = ("sqlite", "redis")
LIVES: Final = 30
"""Processes that die, at most, before one may live to the end."""
MOST_SECS: Final = 600.0
"""What takes longer hangs."""


@dataclass(frozen=True)
class Death:
    """How one process ends: at a named step for the n-th time, or, without one, after so many seconds."""

    secs: float
    step: str | None = None
    number: int = 0
    server_secs: float | None = None
    """When the server of the store dies as well, and is started again."""


@dataclass(frozen=True)
class Round:
    """One topology on one store, and the deaths of its processes."""

    seed: int
    store: Store
    messages: int
    deaths: Sequence[Death]


@dataclass
class Killed:
    """What came of a round."""

    round: Round
    kills: Counter[str] = field(default_factory=Counter)
    """`at an instant`, `at a step`, `server`."""
    steps: set[str] = field(default_factory=set)
    """The steps at which a process died."""
    replayed: int = 0
    """Numbers that were emitted more than once."""
    violations: list[str] = field(default_factory=list)

    def describe(self, folder: Path) -> str:
        """The violations, where it can be looked at, and the command that plays the round again."""
        lines = "\n".join(f"  - {violation}" for violation in self.violations)
        command = f"python -m tests.soak.kills {self.round.seed} {self.round.store}"
        return f"kills on {self.round.store}, seed {self.round.seed}:\n{lines}\nIts files: {folder}\nReplay: {command}"


def why_no(store: Store) -> str | None:
    """Return why a store cannot be had here, None where it can."""
    if store == "sqlite":
        return None
    try:
        from tests.servers.redis_server import why_not
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[redis]'"
    return why_not()


def draw_round(seed: int, store: Store) -> Round:
    """Draw a round; in one of ten nothing dies, and all is counted exactly once."""
    draws = random.Random(seed)
    deaths = [] if draws.random() < 0.1 else [_drawn_death(draws, store) for _ in range(LIVES)]
    return Round(seed, store, draws.choice([2000, 4000, 8000]), deaths)


def _drawn_death(draws: random.Random, store: Store) -> Death:
    server_secs = draws.uniform(0.3, 1.0) if store == "redis" and draws.random() < 0.15 else None
    if draws.random() < 0.35:
        return Death(MOST_SECS, draws.choice(STEPS), draws.choice([1, 1, 2, 3, 5, 8]), server_secs)
    return Death(draws.uniform(0.25, 1.5), server_secs=server_secs)


class KilledTopology:
    """The processes of one round, one after the other, in a folder of their own."""

    def __init__(self, round_: Round, folder: Path, *, is_over: Callable[[], bool] = lambda: False) -> None:
        self.round, self.folder = round_, folder
        self.killed = Killed(round_)
        self.is_over = is_over
        self.url = f"sqlite:///{folder}/state.db"
        if round_.store == "redis":
            from tests.servers.process import HOST
            from tests.servers.redis_server import RedisServer  # whose client may not be installed

            self.server = RedisServer(folder)
            self.url = f"redis://{HOST}:{self.server.port}/0?prefix=soak"

    def play(self) -> Killed:
        """Kill until the deaths, or the numbers, are used up; then let one process live, and judge."""
        if self.round.store == "redis":
            self.server.start()
        try:
            self._live()
        finally:
            if self.round.store == "redis":
                self.server.kill()
        return self.killed

    def _live(self) -> None:
        for death in self.round.deaths:
            if self.is_over() or len(lines_of(self.folder / "acked")) >= self.round.messages or self.killed.violations:
                break
            self._die(death)
        status = self._run(Death(MOST_SECS))
        if status != 0:
            self._violated(f"the last process ended with status {status}")
            return
        self.killed.replayed = sum(count > 1 for count in times_emitted(self.folder).values())
        if not self.killed.kills and self.killed.replayed:
            self._violated(f"nothing was killed, and {self.killed.replayed} numbers were replayed")
        self.killed.violations += asyncio.run(self._faults())

    def _die(self, death: Death) -> None:
        status = self._run(death)
        if status == -signal.SIGKILL:
            self.killed.kills["at an instant" if death.step is None else "at a step"] += 1
            self.killed.steps.update([death.step] if death.step else [])
        elif status != 0 and not (death.server_secs is not None and self._was_refused()):
            self._violated(f"a process ended with status {status}, and was not killed")

    def _was_refused(self) -> bool:
        """Tell whether the last process had only just begun when the server died: a start without a store is refused at once."""
        said = self._said()
        return "await checkpoints.open()" in said and "\nengine.errors.StateUnavailable: " in said

    def _run(self, death: Death) -> int | None:
        """Start a process, and have it die; return its exit status, None where it hung and was killed for that."""
        named = [] if death.step is None else [death.step, str(death.number)]
        command = [sys.executable, "-m", "tests.checkpoint.killing", str(self.folder), str(self.round.messages), self.url, *named]
        with (self.folder / "log").open("wb") as log:  # of the last process
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            if death.server_secs is not None and not _ends_within(process, min(death.server_secs, death.secs)):
                self.server.kill()
                self.server.start()
                self.killed.kills["server"] += 1
            if not _ends_within(process, death.secs):
                process.kill()
                process.wait()
                if death.secs == MOST_SECS:
                    self._violated(f"a process was not over after {MOST_SECS:g} s, and was killed")
                    return None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return process.returncode

    async def _faults(self) -> list[str]:
        provider = provider_of(self.url)
        await provider.open("killed")
        try:
            return await faults_of(self.folder, self.round.messages, provider)
        finally:
            await provider.close()

    def _violated(self, text: str) -> None:
        self.killed.violations.append(f"{text}\n{self._said()[-2000:]}")

    def _said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def _ends_within(process: subprocess.Popen[bytes], secs: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(secs)
    return process.returncode is not None


def play_round(seed: int, store: Store, is_over: Callable[[], bool] = lambda: False) -> tuple[Killed, str]:
    """Play the round of a seed; return what came of it, and its violations as text. Its files stay where it has some."""
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{store}-"))
    killed = KilledTopology(draw_round(seed, store), folder, is_over=is_over).play()
    if not killed.violations:
        shutil.rmtree(folder)
        return killed, ""
    return killed, killed.describe(folder)


def main() -> int:
    """Play one round; status 1 where it violates something."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kills", description="One round of kill -9.")
    parser.add_argument("seed", type=int)
    parser.add_argument("store", choices=STORES)
    arguments = parser.parse_args()
    if reason := why_no(arguments.store):
        parser.error(reason)
    killed, text = play_round(arguments.seed, arguments.store)
    print(killed.kills, sorted(killed.steps), f"{killed.replayed} replayed", text, sep="\n")
    return 1 if killed.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
