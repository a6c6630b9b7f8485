"""`FlowSettings` has the settings of a flow-control spout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from engine.config import setting
from engine.config.validated import validated

_MOST: Final = 1_000_000_000


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """All settings of a `FlowControlSpout`. The constructor checks them, and ConfigError names every fault.

    >>> FlowSettings(threshold_ms=50).choice
    'least_wait'
    """

    choice: Literal["least_wait", "round_robin"] = setting(
        "least_wait", help="Choice of the task for the next pack: the one that can begin with it first, or the next in turn."
    )
    threshold_ms: float | None = setting(
        None, above=0, help="Milliseconds from a pack's emit to its task's ack above which the task is SLOW. None: the time of two packs."
    )
    initial_window: int = setting(2, minimum=1, maximum=100_000, help="Packs that may be in flight to a task at first.")
    max_window: int = setting(64, minimum=1, maximum=100_000, help="Packs that may be in flight to a task, at most.")
    pack_ms: float = setting(5.0, above=0, maximum=60_000, help="Milliseconds that the records of one pack should take to process.")
    pack_records: int = setting(1000, minimum=1, maximum=1_000_000, help="Records in one pack, at most.")
    pack_bytes: int = setting(1 << 20, minimum=1, maximum=1 << 31, help="Bytes in one pack, at most, as FlowProducer.size_of counts them.")
    pack_age_ms: float = setting(
        10.0,
        minimum=0,
        maximum=60_000,
        help="Milliseconds that a record waits at most for its pack to fill, while its task has work.",
    )
    max_pending_records: int = setting(
        100_000, minimum=1, maximum=_MOST, help="Records that may be sent beyond the done prefix, so the memory for them is bounded."
    )
    max_retries: int | None = setting(
        None,
        minimum=0,
        maximum=_MOST,
        help="Retries of one record before it is given up. None: no limit. The death of a task counts as no try.",
    )
    checkpoint_interval_ms: float = setting(
        200.0, minimum=1, maximum=3_600_000, help="Milliseconds between two writes of the position, at least."
    )

    def _faults(self) -> Iterator[str]:
        if self.initial_window > self.max_window:
            yield (
                f"initial_window={self.initial_window} is above max_window={self.max_window}, so no window could have this size. "
                "Lower initial_window, or raise max_window."
            )
        if self.pack_records > self.max_pending_records:
            yield (
                f"pack_records={self.pack_records} is above max_pending_records={self.max_pending_records}, so a full pack could never "
                "be sent. Lower pack_records, or raise max_pending_records."
            )
