"""Settings of a process of a group. They are its argument."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """Settings of one process."""

    brokers: str
    topic: str
    group: str
    journal: str
    guarantee: str = "at_least_once"
    commit_acked_set: bool = True
    tasks: int = 1
    bolts: str = "plain"
    """Form of the bolts, one of `BOLTS`."""
    seed: int = 0
    fail_share: float = 0.0
    slow_share: float = 0.0
    """Share of the numbers in a slow stretch that take longer than a revoke waits."""
    pending: int = 400
    """Tuples in flight, at most."""
    drain_ms: int = 1000
    commit_ms: int = 300
    session_ms: int = 2000
    step: str | None = None
    step_number: int = 1
    state_url: str | None = None
    checkpoint_ms: int = 1000
    poison: int | None = None
    """Number that always fails."""
    extra: dict[str, Any] | None = None
    """More settings of the spout."""

    def written(self) -> str:
        """Return the settings as an argument of the process."""
        return json.dumps(asdict(self))
