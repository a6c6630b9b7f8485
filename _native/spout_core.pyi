from collections.abc import Callable
from typing import Any, final

from _native.dispatch import Pulse
from _native.edge_ids import EdgeIds
from _native.histogram import LatencyHistogram
from _native.mailbox import Mailbox, SignalRing
from _native.spout_dispatch import SpoutDispatch

@final
class SpoutCore(SpoutDispatch):
    polling: bool
    max_pending: int
    acker_failure: object
    on_reply: Callable[[Any, int, Any], object] | None
    def __init__(
        self,
        task_id: int,
        *,
        verdicts: SignalRing,
        max_pending: int = 0,
        acker_failure: object = None,
        mailbox: Mailbox,
        ids: EdgeIds,
        ackers: list[SignalRing],
        now: Callable[[], float],
        misuse: Callable[..., BaseException],
        pulse: Pulse,
        slow_call_secs: float = 0.5,
    ) -> None: ...
    def bind(
        self,
        next_tuple: Callable[[], Any],
        on_ack: Callable[[Any], Any] | None,
        on_fail: Callable[[Any, Any], Any],
        on_settled: Callable[[Any, int, float], object] | None = None,
    ) -> None: ...
    def listen(self, on_settled: Callable[[Any, int, float], object] | None) -> None: ...
    def run_burst(self, limit: int) -> int: ...
    def forget_returned(self) -> None: ...
    def end_await(self, secs: float) -> None: ...
    def note_returned(self) -> None: ...
    def polled_in_vain(self) -> bool: ...
    @property
    def handed_out(self) -> int: ...
    def settled_at(self, root: int, task: int, at: float) -> None: ...
    def drop_instance(self) -> int: ...
    @property
    def returned(self) -> object: ...
    @property
    def pending(self) -> int: ...
    @property
    def has_acks_to_flush(self) -> bool: ...
    @property
    def complete_latency(self) -> LatencyHistogram: ...
