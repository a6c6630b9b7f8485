"""Model of flow control: sets of record numbers, and the rules of a window as a table."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from engine.flow.settings import FlowSettings

PAUSES = [0.0, 0.0, *(min(0.01 * 2**failures, 1.0) for failures in range(20))]
"""Pause in seconds, by the number of failures in a row."""

# (state, event) -> (new state, change of the window, effect on the acks that count towards the next slot)
TRANSITIONS: dict[tuple[str, str], tuple[str, int, str]] = {
    ("NORMAL", "within"): ("NORMAL", 0, "count"),
    ("NORMAL", "over"): ("SLOW", -1, "none"),
    ("NORMAL", "failed"): ("BUSY", -1, "none"),
    ("SLOW", "within"): ("NORMAL", 0, "anew"),
    ("SLOW", "over"): ("SLOW", -1, "none"),
    ("SLOW", "failed"): ("BUSY", -1, "none"),
    ("BUSY", "within"): ("NORMAL", 0, "anew"),
    ("BUSY", "over"): ("SLOW", -1, "none"),
    ("BUSY", "failed"): ("BUSY", -1, "none"),
}


@dataclass(eq=False)
class ModelDelivery:
    """A pack in flight. Compared by identity, because a second pack may have the same records, task and time."""

    numbers: range
    task: int
    at: float
    filled: bool


@dataclass
class Held:
    """A penalty: a failure that counts against a task."""

    task: "ModelTask"
    streak: int
    """Number of the task's streak at that time."""
    places: int


@dataclass
class ModelTask:
    """Model of one task's window."""

    settings: FlowSettings
    width: int
    state: str = "NORMAL"
    window: int = 0
    counted: int = 0
    failures: int = 0
    not_acked: int = 0
    """Failures since the last ack, revoked ones included."""
    streak: int = 0
    """Number of the streak; an ack or a stall ends a streak."""
    paused_until: float = 0.0
    record_secs: float | None = None
    pack_secs: float = 0.0
    last_ack: float = 0.0
    head_began: float = 0.0
    there: list[ModelDelivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.window = max(self.settings.initial_window, self.width)

    @property
    def records(self) -> int:
        """Number of records at the task."""
        return sum(len(delivery.numbers) for delivery in self.there)

    def has_room(self, now: float) -> bool:
        """Whether the task may get a pack now."""
        return len(self.there) < self.window and not (self.state == "BUSY" and now < self.paused_until)

    def wait(self, now: float) -> float:
        """Expected wait in seconds until the task would begin with a pack that is sent now."""
        if len(self.there) < self.width:
            return 0.0
        secs = self.record_secs or 0.0
        over = (now - self.head_began) - secs * self.records / len(self.there)
        return self.records * secs + max(0.0, over)

    def rank(self, now: float) -> tuple[bool, float]:
        """Sort key of the choice; the lowest is chosen."""
        return self.state == "BUSY", self.wait(now)

    def send(self, delivery: ModelDelivery) -> None:
        """Send a pack to the task."""
        if not self.there:
            self.head_began = delivery.at
        self.there.append(delivery)
        delivery.filled = len(self.there) >= self.window

    def acked(self, delivery: ModelDelivery, now: float) -> None:
        """The task acked its own part of a pack."""
        service = max(0.0, now - max(delivery.at, self.last_ack))
        self.last_ack = max(self.last_ack, now)
        self.leaves(delivery, now)
        of_record = service / len(delivery.numbers)
        if self.record_secs is None:
            self.record_secs, self.pack_secs = of_record, service
        else:
            self.record_secs += (of_record - self.record_secs) / (8 * self.width)
            self.pack_secs += (service - self.pack_secs) / (8 * self.width)
        if self.failures:
            self.streak += 1
        self.failures = self.not_acked = 0
        settings = self.settings
        threshold = (self.width + 1) * max(settings.pack_ms / 1000, self.pack_secs)
        if settings.threshold_ms is not None:
            threshold = settings.threshold_ms / 1000
        self.follow("over" if now - delivery.at > threshold else "within", delivery.filled)

    def failed(self, delivery: ModelDelivery, now: float) -> None:
        """A pack failed at the task."""
        self.leaves(delivery, now)
        self.failures += 1
        self.not_acked += 1
        self.paused_until = now + PAUSES[min(self.failures, 20)]
        self.follow("failed", False)

    def failed_again(self, delivery: ModelDelivery, now: float) -> None:
        """A record failed here that had failed before."""
        self.leaves(delivery, now)
        self.not_acked += 1
        if self.state == "BUSY":
            self.paused_until = max(self.paused_until, now + PAUSES[min(self.failures, 20)])

    def excused(self, held: Held) -> None:
        """Revoke a failure, because the record proved to be bad."""
        self.window = min(self.window + held.places, max(self.settings.max_window, self.width))
        if held.streak == self.streak and self.failures:
            self.failures -= 1
            if not self.failures:
                self.state, self.counted = "NORMAL", 0

    def stalled(self, now: float) -> None:
        """The task stalled."""
        self.state, self.paused_until = "BUSY", now + 1.0
        self.streak += 1

    def called_back(self, now: float) -> list[ModelDelivery]:
        """Call back all packs in flight, so that other tasks get them."""
        gone, self.there = self.there, []
        self.head_began = now
        self.counted = 0
        self.window = max(1, self.window - len(gone))
        return gone

    def leaves(self, delivery: ModelDelivery, now: float) -> None:
        """Remove a pack that is no longer at the task."""
        self.there.remove(delivery)
        self.head_began = now

    def follow(self, came: str, filled: bool) -> None:
        """Apply one row of the table."""
        self.state, places, counting = TRANSITIONS[self.state, came]
        self.window = max(1, self.window + places)
        if counting != "count":
            self.counted = 0
        if counting != "none" and filled:
            self.counted += 1
            if self.counted >= self.window:
                self.counted = 0
                self.window = min(self.window + 1, max(self.settings.max_window, self.width))


class DoneRecords:
    """Records that are done and records in flight, as sets."""

    def __init__(self) -> None:
        self.done: set[int] = set()
        self.open: Counter[int] = Counter()
        """Number of open trees, by record."""
        self.at_tasks: Counter[int] = Counter()
        """Number of tasks that hold a record, as the controller counts them."""
        self.positions: dict[int, Any] = {}
        self.tries: Counter[int] = Counter()
        """Failures by record; a failure of a whole pack counts for each of its records."""
        self.held: dict[int, Held] = {}
        self.prefix = 0

    def advance(self) -> tuple[int, Any]:
        """Return the end of the done prefix, and its position."""
        while self.prefix + 1 in self.done:
            self.prefix += 1
        return self.prefix, self.positions.get(self.prefix)
