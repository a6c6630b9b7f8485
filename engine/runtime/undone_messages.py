"""Counts what a run leaves undone, just before its components are closed (RUN-4)."""

from collections.abc import Iterable

from engine.api import FromGenerator, Inlet, Spout
from engine.runtime.spout_executor import SpoutExecutor
from engine.topology.task_port import SpoutPortUser
from engine.undone import Undone


def count_undone(spouts: Iterable[SpoutExecutor], unfinished: str) -> Undone:
    """Return what the user's spouts leave undone. unfinished: the work that a drain did not finish in its time."""
    return sum(map(_undone_of, spouts), Undone(unfinished=unfinished))


def count_given_up(executor: SpoutExecutor) -> int:
    """Return the number of failed messages or rows that one spout task does not emit again, as far as the engine knows them."""
    if isinstance(executor.component, FromGenerator) or (executor.source is None and isinstance(executor.component, SpoutPortUser)):
        return executor.given_up + executor.component.undone(0).failed
    return executor.given_up


def _undone_of(executor: SpoutExecutor) -> Undone:
    """Return what one spout task leaves undone.

    The engine's own spouts know it. An Inlet has told each failure to its sender. A Spout class without a `fail` of its own drops what
    failed. One with a `fail` may replay it, or keep it elsewhere, which nobody else can know. Its failures count only if nothing at all was
    acked, because then nothing was replayed with success.
    """
    core, spout = executor.core, executor.component
    if executor.source is not None:  # a failed row is repeated, until it is given up
        refused = spout.undone(0).failed if isinstance(spout, FromGenerator) else 0  # rows that could not be emitted have no letter
        return Undone(core.pending, executor.given_up - executor.letters + refused, owed=executor.rows_to_retry)
    if isinstance(spout, (FromGenerator, SpoutPortUser)):
        return spout.undone(core.pending) + Undone(failed=executor.given_up)
    if isinstance(spout, Inlet) or not isinstance(spout, Spout):
        return Undone(core.pending, executor.given_up)
    drops_failures = type(spout).fail is Spout.fail and "fail" not in vars(spout)
    return Undone(core.pending, core.failed if drops_failures or not core.acked else 0)
