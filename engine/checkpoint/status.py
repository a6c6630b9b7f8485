"""What a run shows of its checkpoints: where they are, how the last one went, and what holds one up."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

CheckpointStep: TypeAlias = Literal["idle", "initialise", "prepare", "commit", "commit again", "roll back"]


@dataclass(frozen=True, slots=True)
class CheckpointSnapshot:
    """The checkpoints of a run at one moment."""

    step: CheckpointStep
    """What is under way."""
    step_secs: float
    """For how long."""
    txid: int
    """The last committed one; -1: none."""
    round: int
    committed: int = 0
    """Checkpoints that this run has committed."""
    recoveries: int = 0
    """Times that a step failed, or a task died, and the run recovered."""
    last_ms: float | None = None
    """Duration of the last one, from PREPARE to the end of COMMIT."""
    last_keys: int = 0
    """Keys that it changed, over all tasks."""
    last_bytes: int = 0
    """Bytes that it staged, over all tasks."""
    last_alignment_ms: float = 0.0
    """The longest time that a task of it held a source back."""
    trouble: str | None = None
    """Why the store cannot be reached just now."""
    waits_for: tuple[str, ...] = ()
    """What holds the step up, by task."""
