"""examples/log_etl up to the hand-over, without Spark."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.cli import run_in_terminal
from engine.transactional import committed_lines
from spark_bridge.handover import Handover
from tests.examples.log_etl import access_log, plain, topology, traffic


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Process the logs in batches of 400 lines; return the folder."""
    folder = tmp_path_factory.mktemp("log-etl")
    traffic.write(folder / "logs", traffic.Traffic(lines=4_000, seed=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology, "QUERIES", ())  # without consumers, nothing is deleted and nothing waits
        assert run_in_terminal(topology.build(folder, topology.of_files(folder, batch_lines=100)), view="silent").exit_status == 0
    return folder


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[str]:
    return [
        line for path in sorted((folder / "logs").glob("*.log")) for line in path.read_bytes().decode(errors="replace").split("\n")[:-1]
    ]


def handed_over(folder: Path) -> list[list[tuple[object, ...]]]:
    """Rows of each batch."""
    handover = Handover.open(folder / "handover")
    manifests = [handover.manifest(txid) for txid in range(1, handover.newest() + 1)]
    tables = [[pq.read_table(folder / "handover" / file.name) for file in manifest.files] for manifest in manifests]
    return [[tuple(row.values()) for table in batch for row in table.to_pylist()] for batch in tables]


@pytest.mark.guarantee("SP-1", "SP-2")
def test_every_line_is_handed_over_as_a_row(folder: Path, lines: list[str]) -> None:
    rows = {row for batch in handed_over(folder) for row in batch}
    whole = [request for line in lines if (request := plain.take_apart(line)) is not None]
    assert rows == {tuple(request) for request in whole}
    assert len(next(iter(rows))) == len(access_log.SCHEMA)


def test_duplicate_requests_are_in_different_batches(folder: Path) -> None:
    batches = [Counter(row[0] for row in batch) for batch in handed_over(folder)]
    assert len(batches) > 5
    assert all(count == 1 for batch in batches for count in batch.values())
    assert max(sum(batches, Counter()).values()) > 1, "Spark drops duplicates between batches"


def test_the_counts_and_the_rejected_lines_are_exact(folder: Path, lines: list[str]) -> None:
    broken = [line for line in lines if plain.take_apart(line) is None]
    rows = sum(map(len, handed_over(folder)))
    assert broken
    assert sorted(committed_lines(folder / "broken")) == sorted(broken)
    assert topology.tallied(folder) == {
        "lines": len(lines),
        "broken": len(broken),
        "duplicates": len(lines) - len(broken) - rows,
        "heartbeats": sum(plain.take_apart(line).agent == "heartbeat" for line in lines if line not in set(broken)),
    }


def test_a_batch_has_lines_of_the_same_time_of_day_from_all_logs(folder: Path) -> None:
    """A batch has logs of the same time of the day, so no row is too late for the pipeline."""
    newest = None
    for batch in handed_over(folder):
        times = [row[1] for row in batch]
        assert newest is None or (newest - min(times)).total_seconds() <= traffic.LATEST_SECS
        newest = max(times) if newest is None else max(newest, *times)


def test_the_command_line_finds_the_topology_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_ETL", str(folder))
    assert topology.topology().name == "log-etl"
