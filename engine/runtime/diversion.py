"""`Diversion` sends inputs that have failed for good to the stream `failed` of their bolt (SV-14)."""

from typing import Final

from engine.errors import ERROR, FAILED, Failure
from engine.kernel import BoltCore, Tuple, failed_calls
from engine.names import FAILED_STREAM, TAKES_PACKS
from engine.runtime.error_report import ErrorReporter
from engine.runtime.plan import TaskInfo
from engine.topology import ComponentSpec

_REASONS: Final = frozenset({ERROR, FAILED})
"""Reasons of an input that has failed for good. An input that died with its instance has not: its source replays it."""


class Diversion:
    """The diverted inputs of one bolt task."""

    def __init__(self, core: BoltCore, info: TaskInfo, spec: ComponentSpec, reporter: ErrorReporter) -> None:
        self._core = core
        self._info = info
        self._is_on = spec.settings.diverts
        self._takes_packs = TAKES_PACKS in spec.marks
        self._reporter = reporter
        self.diverted = 0

    def divert(self, tup: Tuple, failure: Failure) -> bool:
        """Emit an input on the stream `failed`, and ack it. Return False if it must fail instead."""
        if not self._is_on or failure.reason not in _REASONS:
            return False
        if self._takes_packs and len(tup[0]) > 1:
            return False  # its source sends the guilty record alone
        attempts = failed_calls(tup) + 1
        values = dict(zip(tup.fields, tup.values, strict=True))
        row = (self._info.component_id, self._info.task_id, failure.error or failure.describe(), attempts, values)
        try:
            self._core.emit(row, None if tup.is_settled else tup, FAILED_STREAM)
        except Exception as error:  # noqa: BLE001 - a grouping of the user refuses the row
            self._reporter.report(error, tup=tup, next_step=f"the input is not sent to the stream {FAILED_STREAM!r}, and fails")
            return False
        self.diverted += 1
        if not tup.is_settled:
            self._core.ack(tup)
        return True
