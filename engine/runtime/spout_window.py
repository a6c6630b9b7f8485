"""`max_spout_pending="auto"`: `SpoutWindow` finds the number of open trees of a spout by trials (FC-8).

`SpoutWindow` is a plain object. The executor reports each burst of the spout's tasks, and gets the number of trees that each task may have
open.

More open trees are useful only while they increase the ack rate. Beyond this point, further trees only lengthen the queue of the slowest
bolt. A trial compares the window with twice or half the window, in short rounds in the order A B B A. In this order a temporary slowdown of
the machine affects both windows equally. A trial ends as soon as the mean difference of the pairs is significant compared with its standard
error.

All tasks of a spout share one window. Separate windows would grow without limit, each at the cost of the other tasks. See docs/FLOW.md.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from engine.backoff import Backoff

WindowState: TypeAlias = Literal["NORMAL", "SLOW", "BUSY"]

FIRST_WINDOW: Final = 4
MAX_WINDOW: Final = 262_144
"""Largest window of a task. An open tree takes some 300 bytes."""
MIN_GAIN: Final = 0.025
"""Minimum gain in ack rate for twice the window, and maximum loss for half of it. Both are differences of logarithms."""
ROUND_SECS: Final = 0.02
LONG_ROUND_SECS: Final = 1.0
"""Age from which a round ends after one window of acks instead of two."""
MAX_PAIRS: Final = 48
FEW_PAIRS: Final = 4
USUAL_NOISE, LEAST_NOISE = 0.2, 0.05
"""Assumed difference of two rounds with the same window. USUAL_NOISE is assumed while there are few pairs, LEAST_NOISE later."""
CLEAR_ERRORS: Final = 2.0
"""Number of standard errors from which the result of a trial is significant."""
BACKOFF: Final = Backoff(0.1, 12.8)
"""Pauses after trials that were lost in a row."""
PAUSE_ROUNDS: Final = 4
"""Minimum number of rounds of a pause."""
CHANGED_RATE: Final = 1.6
"""Factor by which the ack rate must change, up or down, to end a pause."""
CHANCE_FAILURES: Final = 32
"""Number of failures of a round that can be chance, and therefore do not count against the window."""


@dataclass(slots=True)
class _Task:
    """One spout task after its last burst."""

    acked: int = 0
    failed: int = 0
    open_trees: int = 0
    window: int = FIRST_WINDOW
    """The window that was returned for its last burst."""
    idle_since: float | None = None
    """Time at which a reason other than the window stopped the polls of the task."""


@dataclass(slots=True)
class _Round:
    """Acks and failures of one round."""

    task_index: int
    """The round begins and ends with this task, so that each task has the same number of bursts."""
    began: float
    ignored_trees: int = 0
    """Trees that were open when the window changed; the round restarts when they have ended."""
    acked: int = 0
    failed: int = 0
    idle_secs: float = 0.0
    is_limited: bool = False
    """True if the window has stopped the polls of a task."""


@dataclass(slots=True)
class _Trial:
    """Comparison of the window with another one, in pairs of rounds."""

    base: int
    other: int
    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0
    acks: list[int] = field(default_factory=lambda: [0, 0])
    first: float | None = None
    """Logarithm of the ack rate of the first round of the current pair."""

    @property
    def turn(self) -> int:
        """0 if the next round has the base window, 1 if it has the other. The order is 0 1 1 0 0 1 1 0."""
        return (self.pairs + (self.first is not None)) % 2

    @property
    def window(self) -> int:
        """The window of the next round."""
        return self.other if self.turn else self.base

    def add_round(self, rate: float, acks: int) -> bool | None:
        """Add the result of a round. Return True if the other window has won, False if it has lost, None if the trial continues."""
        turn = self.turn
        self.acks[turn] += acks
        if self.first is None:
            self.first = math.log(rate)
            return None
        gain = (math.log(rate) - self.first) * (1 if turn else -1)
        gain = max(-1.0, min(1.0, gain))
        self.pairs, self.first = self.pairs + 1, None
        self.total += gain
        self.squares += gain * gain
        return self._verdict()

    def _verdict(self) -> bool | None:
        mean = self.total / self.pairs
        advantage = mean - MIN_GAIN if self.other > self.base else mean + MIN_GAIN
        if self.pairs < MAX_PAIRS and abs(advantage) < CLEAR_ERRORS * self._standard_error(mean):
            return None
        return advantage > 0

    def _standard_error(self, mean: float) -> float:
        """Estimate the standard error of the mean from the variance of the pairs, plus an assumed variance."""
        assumed = LEAST_NOISE**2
        if self.pairs < FEW_PAIRS:  # few pairs may agree by chance, and few acks leave the rate uncertain
            assumed = max(USUAL_NOISE**2, self.pairs * sum(1 / acks for acks in self.acks))
        return math.sqrt(assumed + max(0.0, self.squares - self.pairs * mean**2)) / self.pairs


class SpoutWindow:
    """Number of trees that each task of a spout may have open."""

    def __init__(self, tasks: int = 1) -> None:
        self.state: WindowState = "NORMAL"
        self._tasks = [_Task() for _ in range(tasks)]
        self._window = FIRST_WINDOW
        self._trial: _Trial | None = None
        self._lost_trials = 0
        self._pause_until = 0.0
        self._pause_rounds = 0
        self._pause_rate = 0.0
        """Ack rate of the first round of the pause; 0 before the end of this round."""
        self._overshoot = 0
        """Most trees that one poll of a spout has emitted beyond its window, since the last trial began."""
        self._round: _Round | None = None

    @property
    def max_pending(self) -> int:
        """The window at the moment."""
        return self._window if self._trial is None else self._trial.window

    def after_burst(self, task_index: int, now: float, acked: int, failed: int, open_trees: int, limited: bool | None) -> int:
        """Count the trees of a task after a burst, and return its window.

        `acked` and `failed` count all its trees so far. `limited`: True if the window keeps the task from being polled, False if
        something else does, None if it is polled.
        """
        task, this = self._tasks[task_index], self._round
        if this is None:
            this = self._round = _Round(task_index, now)
        acks, fails = acked - task.acked, failed - task.failed
        if open_trees > task.open_trees:
            self._overshoot = max(self._overshoot, open_trees - task.window)
        task.acked, task.failed, task.open_trees = acked, failed, open_trees
        this.acked += acks
        this.failed += fails
        if task.idle_since is not None:
            this.idle_secs += now - max(task.idle_since, this.began)
        task.idle_since = now if limited is False else None
        this.is_limited = this.is_limited or limited is True
        if fails and self._fails_mostly(this):
            self._shrink_at_once(fails, task_index, now)
        elif this.ignored_trees:
            if this.acked + this.failed >= this.ignored_trees:
                self._round = _Round(task_index, now)
        elif self._is_over(this, task_index, now):
            before = self.max_pending
            self._end_round(this, now)
            in_flight = sum(each.open_trees for each in self._tasks)
            self._round = _Round(task_index, now, in_flight if self.max_pending != before else 0)
        task.window = self.max_pending
        return task.window

    # Rounds

    def _is_over(self, this: _Round, task_index: int, now: float) -> bool:
        settled, secs = this.acked + this.failed, now - this.began
        in_flight = max(self.max_pending, self._overshoot) * len(self._tasks)
        if secs >= LONG_ROUND_SECS:
            return settled >= in_flight
        return task_index == this.task_index and secs >= ROUND_SECS and settled >= 2 * in_flight

    def _end_round(self, this: _Round, now: float) -> None:
        if self.state == "BUSY":
            if this.failed <= this.acked:
                self._pause(now, "NORMAL")
        elif not this.is_limited or this.idle_secs * 4 > (now - this.began) * len(self._tasks) or not this.acked:
            self._trial = None  # a round in which the window did not limit the spout is no evidence about the window
        elif self._trial is not None:
            won = self._trial.add_round(this.acked / (now - this.began), this.acked)
            if won is not None:
                self._end_trial(self._trial, now, won=won)
        else:
            self._note_pause_round(this.acked / (now - this.began))
        if self._trial is None and self._pause_rounds <= 0 and now >= self._pause_until and self.state != "BUSY":
            self._begin_trial(now)

    def _note_pause_round(self, rate: float) -> None:
        """Count a round of a pause. End the pause if the ack rate has changed, because another window may be better then."""
        self._pause_rounds -= 1
        self._pause_rate = self._pause_rate or rate
        if not 1 / CHANGED_RATE < rate / self._pause_rate < CHANGED_RATE:
            self._pause_until, self._lost_trials = 0.0, 0

    # Trials

    def _begin_trial(self, now: float) -> None:
        wider = max(self._window * 2, self._overshoot)  # if one poll emits a thousand trees, windows of 4 and 8 have the same effect
        other = min(wider, MAX_WINDOW) if self.state == "NORMAL" else max(self._window // 2, 1)
        self._overshoot = 0
        if other == self._window:
            self._reverse(now)
        else:
            self._trial = _Trial(self._window, other)

    def _end_trial(self, trial: _Trial, now: float, *, won: bool) -> None:
        self._trial = None
        if won:
            self._window, self._lost_trials = trial.other, 0
        else:
            self._reverse(now)

    def _reverse(self, now: float) -> None:
        """Try the other direction after a pause, because this direction brought no gain. The next pause is longer."""
        self._pause(now, "SLOW" if self.state == "NORMAL" else "NORMAL")
        self._lost_trials += 1

    def _pause(self, now: float, state: WindowState) -> None:
        pause_secs = BACKOFF.pause_secs(self._lost_trials + 1)
        self.state, self._pause_until, self._pause_rounds = state, now + pause_secs, PAUSE_ROUNDS
        self._pause_rate = 0.0

    # Failures

    def _fails_mostly(self, this: _Round) -> bool:
        """Tell whether more trees fail than are acked."""
        # Fewer failures need no reaction here. Failures lower the ack rate, so a window that causes them loses its trial.
        return this.failed > this.acked and (self.state == "BUSY" or this.failed > CHANCE_FAILURES)

    def _shrink_at_once(self, fails: int, task_index: int, now: float) -> None:
        if self.state != "BUSY":
            self.state, self._trial = "BUSY", None
            self._round = _Round(task_index, now)
        self._window = max(1, self._window - fails)
