"""`HoldingCollector` is the collector of a bolt with retries. What a call emits and settles leaves when the call returns (SV-13).

A bolt without retries has the compiled collector alone, and pays nothing for this.
"""

from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, TypeAlias, cast

from engine.api import Values
from engine.api.collector import Anchors
from engine.errors import Failure
from engine.kernel import BoltCollector, BoltCore, HeldCall, Tuple
from engine.names import DEFAULT_STREAM
from engine.runtime.basic_collector import CURRENT_CALL

FailInput: TypeAlias = Callable[[Tuple, Failure], None]
"""Fails an input of the task, or diverts it."""


class HoldingCollector:
    """Collector of one instance. Holds back the emits and settles of its calls, and passes on those of all other code."""

    def __init__(self, direct: BoltCollector, core: BoltCore, failure: Failure, fail: FailInput) -> None:
        """failure: of inputs that the bolt itself fails. fail: fails an input."""
        self._direct = direct
        self._core = core
        self._failure = failure
        self._fail = fail
        self._plain: HeldCall | None = None
        """The call that the core makes now, or whose result the executor awaits next."""
        self.ready = direct.ready
        self.report_error = direct.report_error
        self.reset_timeout = direct.reset_timeout

    def holding(self, execute: Callable[[Any], Any], *, basic: bool) -> Callable[[Any], Any]:
        """Return `execute` for the core. An awaitable result is returned with the call still open, which `begin` then continues.

        basic: the values that execute returns or yields are emitted here.
        """

        def execute_and_hold(given: Any) -> Any:
            held = self._plain = HeldCall(self._core)
            try:
                result = execute(given)
                if basic and type(result) is tuple:
                    held.emit(result, given, DEFAULT_STREAM)
                elif basic and type(result) is GeneratorType:
                    for values in result:
                        held.emit(values, given, DEFAULT_STREAM)
                elif result is not None:
                    return result
                held.send(self._fail)
            except BaseException:
                held.drop()
                self._plain = None
                raise
            self._plain = None
            return None

        return execute_and_hold

    def begin(self) -> HeldCall:
        """Return the open call whose result the executor awaits, or that of a call that begins now."""
        held, self._plain = self._plain, None
        return HeldCall(self._core) if held is None else held

    def end(self, held: HeldCall) -> None:
        """Let everything leave that a call has emitted and settled, because it has returned."""
        held.send(self._fail)

    def emit(self, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple when the running call returns, or at once if the code belongs to no call. So do the methods below."""
        held = self._held()
        if held is None:
            self._direct.emit(values, anchors, stream)
        else:
            held.emit(values, anchors, stream)

    def emit_many(self, rows: Iterable[Values], anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        held = self._held()
        if held is None:
            self._direct.emit_many(rows, anchors, stream)
        else:
            held.emit_rows(rows, anchors, stream, False)

    def emit_each(self, values: Iterable[Any], anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        held = self._held()
        if held is None:
            self._direct.emit_each(values, anchors, stream)
        else:
            held.emit_rows(values, anchors, stream, True)

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        held = self._held()
        if held is None:
            self._direct.emit_direct(task, values, anchors, stream)
        else:
            held.emit_direct(task, values, anchors, stream)

    def ack(self, tup: Tuple) -> None:
        held = self._held()
        if held is None:
            self._direct.ack(tup)
        else:
            held.settle(tup, None, "ack")

    def fail(self, tup: Tuple, error: str | BaseException | None = None) -> None:
        held = self._held()
        failure = self._failure if error is None else self._failure.because(error)
        if held is not None:
            held.settle(tup, failure, "fail")
        elif self._direct.retired or not isinstance(cast(object, tup), Tuple) or tup.is_settled or tup.is_tick:
            self._direct.fail(tup, error)  # which ignores it, counts it or raises
        else:
            self._fail(tup, failure)

    def retire(self) -> None:
        """Raise at every later emit, because the instance has ended."""
        self._direct.retire()
        self._plain = None

    def _held(self) -> HeldCall | None:
        """Return the call of the running code. None: it belongs to no call, or to one that has returned, or the instance has ended."""
        held = self._plain
        if held is None:
            call = CURRENT_CALL.get()
            held = None if call is None else call.held
        if held is None or held.core is not self._core or held.has_returned or self._direct.retired:
            return None
        return held
