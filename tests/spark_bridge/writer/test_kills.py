"""The engine is killed (SIGKILL) at each named step of staging, commit and deletion: every row arrives once (SP-2)."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_bridge import Handover
from tests.kills.forks import run_forked
from tests.spark_bridge.writer.killed import STEPS, handover_of, written
from tests.spark_bridge.writer.playing import named, staged

pytestmark = [pytest.mark.deep, pytest.mark.guarantee("SP-2", "TX-8", "TX-9")]

LINES = [f"line {number}" for number in range(240)]
BATCH = 5
READ_EVERY = 4
"""Number of newest batches that the reader leaves uncommitted after each kill."""


def live(folder: Path, step: str | None, number: int) -> bool:
    """Run one process; tell whether it was killed."""
    ended = run_forked("tests.spark_bridge.writer.killed", written(folder, BATCH, step, number))
    assert ended.returncode in (0, -9), ended.stderr
    return ended.returncode == -9


class Reader:
    """Reads each batch once, when it is there, and commits most of what it has read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.rows: dict[int, list[str]] = {}

    def read(self, *, leave: int) -> None:
        """Read new batches, and check that earlier ones are unchanged."""
        handover = Handover.open(self.folder)
        newest = handover.newest()
        for txid in range(handover.deleted() + 1, newest + 1):
            files = handover.manifest(txid).files
            found = [line for file in files for line in pq.read_table(handover.open_input(file))["line"].to_pylist()]
            assert self.rows.setdefault(txid, found) == found, "a batch that is there never changes"
        assert sorted(self.rows) == list(range(1, newest + 1)), "no batch is lost"
        handover.consumer("reader").plan(newest)
        handover.consumer("reader").commit(max(0, newest - leave))


KINDS = ("contract", "staging", "commit", "state", "deletion")


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_each_step_every_row_is_there_once(tmp_path: Path, kind: str) -> None:
    steps = [step for step in STEPS if step.startswith(kind)]
    (tmp_path / "lines").mkdir()
    for part in range(2):
        (tmp_path / "lines" / f"{part}.txt").write_text("".join(f"{line}\n" for line in LINES[part::2]))
    (tmp_path / "spool").mkdir()
    reader, deaths = Reader(str(tmp_path / "spool")), []
    if kind == "deletion":
        assert live(tmp_path, "state: saved", 8)
        reader.read(leave=READ_EVERY)
    for step in steps:
        if live(tmp_path, step, 1 if kind in ("contract", "deletion") else 3):
            deaths.append(step)
        if (tmp_path / "spool" / "contract.json").exists():
            reader.read(leave=READ_EVERY)
    assert not live(tmp_path, None, 1)
    reader.read(leave=0)
    assert sorted(line for rows in reader.rows.values() for line in rows) == sorted(LINES)
    assert deaths == steps
    handover = handover_of(str(tmp_path / "spool"))
    assert staged(handover) == named(handover), "nothing is left of those that died"
