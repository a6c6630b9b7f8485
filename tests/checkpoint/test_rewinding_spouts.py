"""What a spout that can rewind is told: acks, committed positions, and where it continues (EO-1, EO-5)."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine import (
    BurstSpout,
    ComponentError,
    FatalError,
    FileSpout,
    SpoutExhausted,
)
from engine.testing import KillTask, RaiseError, run_topology
from tests.checkpoint.test_rewinding_sources import FAST, Counted, Rows, chain, once, passes


@pytest.mark.guarantee("EO-1")
def test_a_spout_with_lists_of_acks_gets_those_of_its_message_ids() -> None:
    acked: list[int] = []

    class Bursts(BurstSpout):
        output_fields = "number"

        def seek(self, position: int | None) -> None:
            self.next = position or 0

        def position(self) -> int:
            return self.next

        def next_tuples(self, limit: int) -> None:
            if self.next == 5:
                raise SpoutExhausted
            self.next += 1
            self.collector.emit((self.next - 1,), self.next - 1 if self.next % 2 else None)

        def ack_many(self, message_ids: list[Any]) -> None:
            acked.extend(message_ids)

    count = Counted()
    run_topology(chain(Bursts, {}, count), FAST)
    assert (sorted(acked), count.of) == ([0, 2, 4], once(5))


@pytest.mark.guarantee("EO-1", "FI-5")
@pytest.mark.parametrize("faults", [[], [RaiseError("passes", at_call=700)], [KillTask("count", at_secs=0.05)]])
def test_a_file_is_counted_once_although_more_rows_are_open_than_a_spout_may_keep(tmp_path: Path, faults: list[Any]) -> None:
    (tmp_path / "numbers").write_text("".join(f"{number}\n" for number in range(3000)), encoding="utf-8")
    count = Counted()

    def files() -> FileSpout:
        return FileSpout(tmp_path / "numbers", fields="number", max_in_flight=10)

    finished = run_topology(chain(files, {"passes": passes}, count), FAST, faults=faults, limit_secs=60)
    assert count.of == Counter(map(str, range(3000)))
    assert finished.snapshot.components["rows"].failed == 0 or faults


@pytest.mark.guarantee("EO-1")
def test_a_spout_is_told_the_positions_that_are_committed() -> None:
    made: list[Rows] = []

    def make() -> Rows:
        made.append(Rows())
        return made[-1]

    run_topology(chain(make, {}, Counted()), FAST)
    assert made[-1].told[-1] == 5


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
