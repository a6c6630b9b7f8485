"""Sources whose instance stays in a rollback, and is sought again (EO-5)."""

import asyncio
from typing import ClassVar

import pytest

from engine import ComponentError, FatalError
from engine.testing import KillTask, run_topology
from tests.checkpoint.test_rewinding_sources import FAST, Counted, Rows, chain, once


class Kept(Rows):
    """Stays in a rollback, and emits a row every 0.1 s. At row 3 it waits for ever, in the first pass."""

    survives_rollback = True
    rows = 8
    sought: ClassVar[list[int | None]]
    opened: ClassVar[int]
    refuses: ClassVar[type[Exception] | None] = None
    """Raised by the second `seek`."""

    def open(self) -> None:
        super().open()
        type(self).opened += 1

    def seek(self, position: int | None) -> None:
        self.sought.append(position)
        if self.refuses is not None and len(self.sought) == 2:
            raise self.refuses("no")
        super().seek(position)

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.1)
        if self.next == 3 and len(self.sought) == 1:
            await asyncio.Event().wait()
        super().next_tuple()


@pytest.mark.guarantee("EO-5")
@pytest.mark.parametrize(("refuses", "opened"), [(None, 1), (ValueError, 2)])
def test_a_spout_may_stay_in_a_rollback_and_is_sought_again(refuses: type[Exception] | None, opened: int) -> None:
    """Given a spout whose awaited poll hangs, then the rollback cancels the poll. If `seek` raises, a fresh instance takes over."""
    count, kept = Counted(), type("Kept", (Kept,), {"sought": [], "opened": 0, "refuses": refuses})

    finished = run_topology(chain(kept, {}, count), FAST, faults=[KillTask("count", at_secs=1)], limit_secs=30)

    assert finished.state == "complete"
    assert count.of == once(8)
    assert kept.opened == opened
    assert kept.sought[:2] == [None, 3]
    assert len(kept.sought) == opened + 1


@pytest.mark.guarantee("EO-5")
def test_a_fatal_error_of_the_seek_in_a_rollback_ends_the_run() -> None:
    kept = type("Kept", (Kept,), {"sought": [], "opened": 0, "refuses": FatalError})

    with pytest.raises(ComponentError, match="'rows' \\(task 1\\): no"):
        run_topology(chain(kept, {}, Counted()), FAST, faults=[KillTask("count", at_secs=1)], limit_secs=30)
