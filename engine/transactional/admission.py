"""Backpressure of components on new batches. The coordinator asks the admissions before it begins a batch (SP-6)."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from engine.api import TaskContext
from engine.errors import StateUnavailable
from engine.log import EngineLogger
from engine.waits import Wait, waiting_for

LOGGER: Final = EngineLogger("engine.transactional")
SHORTEST_PAUSE_SECS: Final = 0.05


class Admitted(NamedTuple):
    """The newest txid that may begin, and the reason for the limit."""

    txid: int | None
    """None: no limit."""
    why: str = ""
    """One sentence without a full stop, such as "consumer 'per-minute' is 16 batches behind"."""


class OpenAdmission(Protocol):
    """An opened admission, which the coordinator asks before it begins a batch."""

    async def admitted(self, txid: int) -> Admitted:
        """Return the newest txid that may begin. Called before `txid` begins, if it is above the last answer.

        The answers never decrease. Must not block the loop. Raise StateUnavailable to permit no further batch for now; the coordinator asks
        again later.
        """

    async def close(self) -> None:
        """Release resources. Called once, when the coordinator ends."""


class Admission(Protocol):
    """Limit on the start of new batches. A component declares its admission by the attribute `admission` of the class or of its instances.

    Replays, batches begun before a restart, and the commit phase are never held back.
    """

    async def open(self, context: TaskContext, component_id: str) -> OpenAdmission:
        """Open the admission for the coordinator. context: that of the coordinator. component_id: the component with this attribute."""


class AdmissionGate:
    """All admissions of a topology. A batch begins if all of them permit it."""

    def __init__(self, admissions: Mapping[str, Admission], context: TaskContext) -> None:
        """admissions: by component id. context: that of the coordinator."""
        self._admissions = admissions
        self._context = context
        self._opened: dict[str, OpenAdmission] = {}
        self._answers: dict[str, Admitted] = {}
        self._is_asking = False
        self._wait: Wait | None = None
        """While batches are held back: what for."""
        self._ask_at = 0.0

    async def open(self) -> None:
        """Open all admissions."""
        if not self._admissions:
            return
        self._gauge = self._context.gauge("transactions_held_back")
        self._gauge.set(0)
        for component_id, admission in self._admissions.items():
            self._opened[component_id] = await admission.open(self._context, component_id)
            self._answers[component_id] = Admitted(0)

    def may_begin(self, txid: int) -> bool:
        """Return whether a txid may begin by the answers so far.

        If not, ask again in a background task, and wake the coordinator after that.
        """
        if all(_lets(answer, txid) for answer in self._answers.values()):
            return True
        if not self._is_asking and self._context.clock.now() >= self._ask_at:
            self._is_asking = True
            self._context.create_task(self._ask(txid))
        return False

    async def _ask(self, txid: int) -> None:
        try:
            used_up = [component_id for component_id, answer in self._answers.items() if not _lets(answer, txid)]
            answers = await asyncio.gather(*(self._answer_of(component_id, txid) for component_id in used_up))
            self._answers.update(zip(used_up, answers, strict=True))
        finally:
            self._is_asking = False
        reasons = [answer.why for answer in self._answers.values() if not _lets(answer, txid)]
        self._tell(txid, reasons)
        if reasons:
            pause = max(self._context.config.batch_interval_ms / 1000, SHORTEST_PAUSE_SECS)
            self._ask_at = self._context.clock.now() + pause
            asyncio.get_running_loop().call_later(pause, self._context.wake)
        else:
            self._context.wake()

    async def _answer_of(self, component_id: str, txid: int) -> Admitted:
        try:
            return await self._opened[component_id].admitted(txid)
        except StateUnavailable as error:
            return Admitted(self._answers[component_id].txid, f"{component_id!r} cannot tell whether the batch may begin: {error.message}")

    def _tell(self, txid: int, reasons: list[str]) -> None:
        """Log once when batches are held back, and once when they continue."""
        if bool(reasons) == (self._wait is not None):
            return
        self._gauge.set(int(bool(reasons)))
        name = self._context.topology_name
        self.end_wait()
        if reasons:
            self._wait = waiting_for(f"permission to begin a batch: {'; '.join(reasons)}", logs=False).begun()
            LOGGER.warning("%r begins no batch after %d for now: %s.", name, txid - 1, "; ".join(reasons))
        else:
            LOGGER.warning("%r continues with batch %d.", name, txid)

    def end_wait(self) -> None:
        """End the wait of the batches that are held back. No effect if none are."""
        if self._wait is not None:
            self._wait.end()
            self._wait = None

    async def close(self) -> None:
        """Close all admissions, then raise the first error."""
        errors: list[Exception] = []
        self.end_wait()
        while self._opened:
            _, opened = self._opened.popitem()
            try:
                await opened.close()
            except Exception as error:  # noqa: BLE001 - raised below, once all are closed
                errors.append(error)
        if errors:
            raise errors[0]


def _lets(answer: Admitted, txid: int) -> bool:
    return answer.txid is None or txid <= answer.txid
