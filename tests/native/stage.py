"""Compiled cores of spouts, bolts and ackers without a loop, with a clock that a test moves."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from _native.acker import AckerCore
from _native.bolt import BoltCore
from _native.ids import EdgeIds
from _native.queues import Mailbox, SignalRing
from _native.spout import SpoutCore
from _native.task import BoltBacklog, Outlet, OutStream, TaskCore
from _native.tuples import Source, Tuple
from engine import Fields
from engine.kernel.codes import Choice, Signal

Execute = Callable[[Tuple], object]


class Misused(Exception):
    """Error of a wrong use of a core: its kind, and its details."""

    def __init__(self, kind: str, **what: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.what = what


class Stage:
    """One run's cores, the spouts among them numbered from 1, bolts from 11, ackers from 101."""

    def __init__(self, *, ackers: int = 1, spouts: int = 1) -> None:
        self.secs = 100.0
        self.backlog = BoltBacklog()
        self.rings = [SignalRing() for _ in range(ackers)]
        self.verdicts = {task: SignalRing() for task in range(1, spouts + 1)}
        self.ackers = [AckerCore(101 + index, ring, self.verdicts, self.now) for index, ring in enumerate(self.rings)]
        self._spouts, self._bolts = count(1), count(11)

    def now(self) -> float:
        return self.secs

    def _common(self, task: int) -> dict[str, Any]:
        return {
            "ids": EdgeIds(task),
            "ackers": self.rings,
            "now": self.now,
            "misuse": Misused,
            "backlog": self.backlog,
        }

    def bolt(self, execute: Execute = lambda tup: None, *, basic: bool = False, capacity: int = 1024, **options: Any) -> BoltCore:
        """A bolt's core, bound to execute."""
        task = next(self._bolts)
        reasons = {"failed_reason": "failed", "forgotten_reason": "forgotten"}
        core = BoltCore(task, mailbox=Mailbox(capacity), **reasons, **self._common(task), **options)
        core.bind(execute, basic=basic)
        return core

    def spout(self, next_tuple: Callable[[], object] = lambda: None, **options: Any) -> "SpoutLog":
        """A spout's core, bound to next_tuple, and a log of its calls."""
        task = next(self._spouts)
        core = SpoutCore(task, verdicts=self.verdicts[task], acker_failure="acker died", **self._common(task), **options)
        return SpoutLog(core, next_tuple)

    def settle(self) -> None:
        """Let the ackers apply all signals that wait."""
        for acker in self.ackers:
            while acker.run_burst():
                pass


class SpoutLog:
    """A spout's core with a log of its acks and fails."""

    def __init__(self, core: SpoutCore, next_tuple: Callable[[], object]) -> None:
        self.core = core
        self.acked: list[Any] = []
        self.failed: list[tuple[Any, Any]] = []
        core.bind(next_tuple, self.acked.append, lambda message_id, failure: self.failed.append((message_id, failure)))

    def emit(self, values: tuple[Any, ...], message_id: object = None, stream: str = "default") -> None:
        self.core.emit(values, message_id, stream)

    def hear(self) -> None:
        """Hand out the verdicts that wait."""
        self.core.run_burst(1_000_000)


def source(*fields: str, component: str = "words", stream: str = "default", task: int = 1) -> Source:
    return Source(component, stream, task, Fields(*(fields or ("word",))))


def wire(core: TaskCore, *outlets: Outlet, fields: Sequence[str] = ("word",), direct: bool = False) -> None:
    """Give a core one stream, `default`, with these outlets."""
    core.wire({"default": OutStream(source(*fields, component="emitter", task=core.task_id), list(outlets), direct=direct)})


def to(*cores: BoltCore, choice: Choice = Choice.SHUFFLE, **options: Any) -> Outlet:
    """Return an outlet to bolts."""
    return Outlet(choice, [(core.task_id, core.mailbox) for core in cores], **options)


def take_next(core: BoltCore) -> Tuple:
    """Return the next tuple of a bolt, which the bolt has taken."""
    tup = core.take_next()
    assert tup is not None
    return tup


def bolt_with_words(*words: str, tracked: bool = True, **options: Any) -> tuple[Stage, SpoutLog, BoltCore]:
    """Return a spout that has sent these words to a bolt."""
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt(**options)
    wire(spout.core, to(bolt))
    for word in words:
        spout.emit((word,), word if tracked else None)
    return stage, spout, bolt


def signals_to_acker(stage: Stage) -> list[tuple[Signal, int]]:
    """Return kind and root of the signals to the acker, without inits."""
    return [(Signal(kind), root) for kind, root, _, _ in stage.rings[0].waiting() if kind != Signal.INIT]
