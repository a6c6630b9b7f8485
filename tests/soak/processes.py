"""Kills the processes of bolts again and again, and whole runs with all their processes (PR-2).

Usage:

    python -m tests.soak.processes COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.processes COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants

In a round of children, a source replays failed numbers, and a sink records every path through the bolts. An acked number must have all its
paths. In a round of parents, no process may be left two seconds after the death of the run.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import engine
from engine import Config, Topology, TopologyBuilder
from tests.kills.rounds import Killed
from tests.processes.children import children_of
from tests.processes.test_deaths import runs
from tests.project.sources import ROOT
from tests.soak import campaign
from tests.soak.processes_bolts import KINDS
from tests.soak.processes_ledger import Ledger, Sink

Step: TypeAlias = Literal["SIGKILL", "SIGSTOP", "a start", "a restart", "a close", "the parent"]
STEPS: Final[tuple[Step, ...]] = ("SIGKILL", "SIGSTOP", "a start", "a restart", "a close", "the parent")
ROUND: Final = 16
"""Number of processes to kill."""
PARENTS_EVERY: Final = 4
"""One round of so many kills parents."""
MOST_SECS: Final = 40.0
"""Time without an ack after which a run hangs."""
MARK: Final = "STORMCELL_SOAK_ROUND"


@dataclass(frozen=True)
class Death:
    """Death of one process."""

    step: Step
    secs: float
    """Pause before it."""
    draw: float
    """Chooses the process."""


@dataclass
class Drawn:
    """A random topology of one to three layers, each of one or two bolts."""

    topology: Topology
    ledger: Ledger
    processes: list[str] = field(default_factory=list)
    """Bolts in processes."""


def drawn_topology(draws: random.Random, name: str, process_timeout_secs: float) -> Drawn:
    """Draw a topology. At least one bolt is in processes."""
    config = Config(
        acker_executors=draws.choice([1, 1, 2, 3]),
        burst=draws.choice([1, 7, 64, 256]),
        executor_receive_buffer_size=draws.choice([2, 50, 1000, 32_768]),
        max_spout_pending=draws.choice([None, 1000, 100]),
        timeout_from=draws.choice(["progress", "emit"]),
        process_timeout_secs=process_timeout_secs,
        message_timeout_secs=30,
        max_task_restarts=1000,  # the kills of a round may strike one task only
    )
    builder = TopologyBuilder(name, config)
    layers = [[f"{letter}{at}" for at in range(draws.choice([1, 1, 2]))] for letter in "abc"[: draws.randint(1, 3)]]
    always = draws.choice([bolt for layer in layers for bolt in layer])
    paths, chosen = {""}, {}
    for layer in layers:
        fans = {bolt: draws.choice([1, 1, 2, 3]) for bolt in layer}
        chosen |= fans
        paths = {f"{path}.{bolt}{at}" for path in paths for bolt in layer for at in range(fans[bolt])}
    drawn = Drawn(None, Ledger(draws, frozenset(paths)))  # type: ignore[arg-type]  # set below
    builder.set_spout("source", drawn.ledger)
    before = ["source"]
    for layer in layers:
        for bolt in layer:
            in_processes = bolt == always or draws.random() < 0.5
            factory = partial(KINDS[draws.choice(sorted(KINDS))], bolt, chosen[bolt], draws.choice([0, 0, 0.0005]))
            on_error = draws.choice(["fail", "restart"])
            made = builder.set_bolt(bolt, factory, parallelism=draws.randint(1, 3), processes=in_processes, on_error=on_error)
            for each in before:
                subscribe(made, each, draws)
            drawn.processes += [bolt] * in_processes
        before = layer
    sink = builder.set_bolt("sink", partial(Sink, drawn.ledger), parallelism=draws.randint(1, 2))
    for each in before:
        subscribe(sink, each, draws)
    drawn.topology = builder.build()
    return drawn


def subscribe(bolt: Any, source: str, draws: random.Random) -> None:
    """Subscribe with a random grouping."""
    kind = draws.choice(["shuffle", "fields", "partial_key", "none", "local_or_shuffle", "load_aware", "global", "all"])
    getattr(bolt, f"{kind}_grouping")(source, *(["number"] if kind in ("fields", "partial_key") else []))


class KilledRun:
    """One run in this process, whose children are killed."""

    def __init__(self, seed: int, number: int) -> None:
        draws = random.Random(f"{seed} topology {number}")
        self.name = f"soak-{number}-{os.getpid()}-{random.SystemRandom().getrandbits(32):08x}"
        self.drawn = drawn_topology(draws, self.name, draws.choice([1.0, 2.0]))
        spout = "burst" if self.drawn.ledger.is_burst else "plain"
        self.killed = Killed(f"{len(set(self.drawn.processes))} bolts in processes, {spout} spout")
        self._struck: set[str] = set()
        self._pids: set[int] = set()
        self._step_pids: set[int] = set()
        self._loaded: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Begin the run, and its load."""
        self.run = engine.run(self.drawn.topology)
        self.begun = asyncio.ensure_future(self.run.__aenter__())
        self._loaded = asyncio.create_task(self._load())

    async def _load(self) -> None:
        while True:
            ledger = self.drawn.ledger
            if ledger.count - ledger.acked.total() < 3000 / len(ledger.paths):
                ledger.feed(min(200, 1 + 1000 // len(ledger.paths)))
            await asyncio.sleep(0.01)

    def _children(self) -> dict[int, str]:
        """The processes of the run by id, with their tasks."""
        found = {child.pid: child.name for child in children_of(self.name)}
        self._pids.update(found)
        return {pid: name for pid, name in found.items() if runs(pid)}

    async def die(self, death: Death) -> bool:
        """Kill or stop a child."""
        if death.step == "a close":
            return False
        if death.step != "a start":
            await asyncio.wait([self.begun])
            await asyncio.sleep(death.secs)
        before = self._pids.copy()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            there = self._children()
            if death.step in ("a start", "a restart"):
                there = {pid: name for pid, name in there.items() if pid not in before}
                if self.begun.done() and death.step == "a start":
                    return True
            if there:
                self._strike(sorted(there.items())[int(death.draw * len(there))], death.step)
                return True
            await asyncio.sleep(0.001)
        return True

    def _strike(self, victim: tuple[int, str], step: Step) -> None:
        pid, name = victim
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if step == "SIGSTOP" else signal.SIGKILL)
            self._struck.add(name)
            self.killed.deaths[step] += 1

    async def finish(self) -> Killed:
        """Let the run complete, kill one process while it is closed, and judge."""
        ledger, faults = self.drawn.ledger, self.drawn.ledger.violations
        assert self._loaded is not None
        try:
            async with asyncio.timeout(MOST_SECS) as limit:
                await self.begun
                self._loaded.cancel()
                ledger.is_closed = True
                ledger.wake()
                completed = asyncio.ensure_future(self.run.completed())
                while ledger.acked.total() < ledger.count:
                    before = ledger.acked.total()
                    await asyncio.sleep(0.005)
                    if ledger.acked.total() > before:
                        limit.reschedule(asyncio.get_running_loop().time() + MOST_SECS)
                if there := self._children():
                    await asyncio.sleep(random.random() * 0.03)
                    self._strike(random.choice(sorted(there.items())), random.choice(["a close", "a close", "SIGSTOP"]))
                await completed
        except Exception as error:
            left = sorted(set(range(ledger.count)) - set(ledger.acked))
            faults.append(f"the run did not complete: {error!r}; open are {len(left)} numbers: {left[:10]}; {self._state()}")
        snapshot = self.run.snapshot()
        await self.run.__aexit__(None, None, None)
        self._children()
        if left_pids := [pid for pid in self._pids if runs(pid)]:
            faults.append(f"processes {left_pids} are alive after the run")
        ledger.judge()
        self._judge_counts(snapshot)
        self.killed.violations = faults[:10]
        self.killed.lives = len(self._pids)
        return self.killed

    def _state(self) -> str:
        tasks = [
            (name, task.task_id, task.executed, task.acked, task.failed, task.waiting, task.restarts, task.status)
            for name, each in self.run.snapshot().components.items()
            for task in each.tasks
        ]
        return f"tasks {tasks}, errors {[each.text for each in self.run.snapshot().errors][-5:]}"

    def _judge_counts(self, snapshot: Any) -> None:
        ledger, faults = self.drawn.ledger, self.drawn.ledger.violations
        source = snapshot.components["source"]
        if (source.acked, source.failed) != (ledger.acked.total(), ledger.failed):
            heard = (ledger.acked.total(), ledger.failed)
            faults.append(f"the snapshot counts {source.acked} acks and {source.failed} fails; the source has heard of {heard}")
        for name, component in snapshot.components.items():
            for task in component.tasks:
                if task.restarts and f"{self.name}/{name}[{task.task_id}]" not in self._struck:
                    faults.append(f"task {task.task_id} of {name} was restarted {task.restarts} times, and its process was not killed")


class KilledParents:
    """Runs in programs that are killed with kill -9."""

    def __init__(self, seed: int, number: int) -> None:
        self._argument = f"{seed} parent {number}"
        self.killed = Killed("parents")

    async def prepare(self) -> None:
        """Nothing to do."""

    async def die(self, death: Death) -> bool:
        """Start a program, kill it, and look for its processes two seconds later."""
        mark = f"{MARK}={random.SystemRandom().getrandbits(64):016x}"
        environment = os.environ | {"PYTHONPATH": str(ROOT), MARK: mark.partition("=")[2]}
        command = (sys.executable, "-m", "tests.soak.processes", "parent", f"{self._argument} {death.draw}")
        parent = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
        try:
            await asyncio.sleep(0.3 + death.secs * 4)
        except asyncio.CancelledError:
            parent.kill()
            raise
        if parent.returncode is not None:
            assert parent.stderr is not None
            self.killed.violations.append(f"the program has ended: {(await parent.stderr.read()).decode()[-1000:]}")
            return True
        parent.kill()
        await parent.wait()
        self.killed.deaths["the parent"] += 1
        end = time.monotonic() + 2
        while (left := marked(mark)) and time.monotonic() < end:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.02)
        if left:
            self.killed.violations.append(f"2 s after the death of {parent.pid} these processes are alive: {left}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return True

    async def finish(self) -> Killed:
        """Return the result."""
        return self.killed


def marked(mark: str) -> dict[int, str]:
    """Return the processes with this text in their environment, with their command lines."""
    found = {}
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and mark.encode() in (each / "environ").read_bytes() and runs(int(each.name)):
                found[int(each.name)] = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return found


class Processes(campaign.Campaign[None, Killed]):
    """Kills children of runs, and runs with children."""

    name = "processes"
    full = 400
    enough = 300

    def why_not(self) -> str | None:
        return None if Path("/proc/self/environ").exists() else "it looks for processes in /proc"

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        main, shown = sys.modules["__main__"], vars(sys.modules["__main__"]).copy()
        main.__spec__ = None
        vars(main).pop("__file__", None)  # else each child would import this program, which takes longer than a timeout of 1.5 s
        try:
            yield
        finally:
            vars(main).update(shown)

    def begin(self, seed: int, count: int) -> campaign.KillsResult[Killed]:
        return campaign.KillsResult(seed, count, "of bolts", STEPS)

    def topology(self, servers: None, seed: int, number: int, folder: Path) -> Any:
        return KilledParents(seed, number) if number % PARENTS_EVERY == PARENTS_EVERY - 1 else KilledRun(seed, number)

    def deaths(self, seed: int, number: int) -> list[Death]:
        draws = random.Random(f"{seed} round {number}")
        if number % PARENTS_EVERY == PARENTS_EVERY - 1:
            return [Death("the parent", draws.random() * 0.4, draws.random()) for _ in range(3)]
        steps: list[Step] = ["a start"] * draws.choice([0, 1, 2])
        steps += draws.choices(["SIGKILL", "SIGKILL", "SIGSTOP", "a restart"], k=draws.randint(3, 8))
        return [Death(step, draws.choice([0.0, 0.05, 0.3]) * draws.random(), draws.random()) for step in steps]


async def play_endlessly(argument: str) -> None:
    """Run a random topology until this process is killed."""
    drawn = drawn_topology(random.Random(argument), "soak-parent", 60.0)
    async with engine.run(drawn.topology):
        while True:
            if drawn.ledger.count - drawn.ledger.acked.total() < 3000:
                drawn.ledger.feed(200)
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    if sys.argv[1:2] == ["parent"]:
        asyncio.run(play_endlessly(sys.argv[2]))
    sys.exit(campaign.command(Processes()))
