"""Snapshot of the checkpoints of a run."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.checkpoint.guarantees import Guarantees

CheckpointStep: TypeAlias = Literal["idle", "recover", "prepare", "commit"]


@dataclass(frozen=True, slots=True)
class CheckpointSnapshot:
    """The checkpoints of a run at one moment."""

    step: CheckpointStep
    """Step in progress."""
    step_secs: float
    """Seconds since the step began."""
    txid: int
    """Last committed txid. -1: none."""
    round: int
    committed: int = 0
    """Checkpoints that this run has committed."""
    recoveries: int = 0
    """Number of recoveries, after a failed step or a dead task."""
    last_ms: float | None = None
    """Duration of the last checkpoint, from PREPARE to the end of COMMIT."""
    last_keys: int = 0
    """Changed keys of the last checkpoint, over all tasks."""
    last_bytes: int = 0
    """Staged bytes of the last checkpoint, over all tasks."""
    last_alignment_ms: float = 0.0
    """Longest time that a task held a source during the last checkpoint."""
    trouble: str | None = None
    """Error of the store while it is unavailable. None: it is available."""
    waits_for: tuple[str, ...] = ()
    """A text for each task that waits: `count[3] waits for the barrier of split[2]`, `count[3] repeats pre_commit(7), which raised …`."""
    owed: int = 0
    """Rows that have failed without an effect, and wait until their source retries them alone."""
    held_acks: tuple[str, ...] = ()
    """Spouts of which acks wait for the next commit."""
    since_commit_secs: float = 0.0
    """Seconds since the last commit, or since the start of the run."""
    held: str | None = None
    """Reason for which the sources are not polled: the store, a recovery, or a checkpoint that takes too long. None: they are polled."""
    cause: str | None = None
    """Reason for which the run goes back to its last commit, if it is known. None: it does not."""
    guarantees: Guarantees | None = None
    """Who is exact. None before the run has opened its checkpoints."""
