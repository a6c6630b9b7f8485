"""Sources whose emitters run on executors, by planned bounds (CL-1)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, FailedBatch, Tuple
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional import FileTransactionalSpout, TransactionalTopologyBuilder
from tests.kafka.play import produce
from tests.servers.kafka_fixtures import NewTopic
from tests.spark_bridge.topology.both_engines import Committed, play, play_both
from tests.spark_bridge.topology.local_jobs import LocalJobs

pytestmark = [pytest.mark.asyncio, pytest.mark.guarantee("CL-1")]


class Upper(BasicBolt):
    """Fails the second batch once, in its first attempt."""

    output_fields = "line"

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple) -> tuple[str]:
        if tup["attempt"].txid == 2 and not self.marker.exists():
            self.marker.touch()
            raise FailedBatch("once")
        return (str(tup["line"]).upper(),)


def topology(spout: Callable[[], Any], marker: Path, committed: Committed) -> Any:
    builder = TransactionalTopologyBuilder("planned", "lines", spout(), 2)
    builder.set_bolt("upper", lambda: Upper(marker), 2).shuffle_grouping("lines")
    builder.set_committer("keep", committed.committer).global_grouping("upper")
    return builder.build()


def write_files(folder: Path) -> list[str]:
    folder.mkdir()
    lines = [f"line {file} {number}" for file in range(3) for number in range(50 * file + 7)]
    for file in range(3):
        (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines if line.startswith(f"line {file}")))
    return lines


@pytest.mark.parametrize("pending", [1, 3])
async def test_lines_of_files_are_read_once_in_the_same_batches(tmp_path: Path, pending: int) -> None:
    lines = await asyncio.to_thread(write_files, tmp_path / "files")

    def spout() -> Any:
        return FileTransactionalSpout(tmp_path / "files", batch_lines=10, stop_at_end=True)

    here, there = await play_both(lambda committed: topology(spout, tmp_path / "failed", committed), max_spout_pending=pending)

    assert (tmp_path / "failed").exists()
    assert [row[0] for row in there.committed.rows()] == sorted(line.upper() for line in lines)
    assert here.committed.rows() == there.committed.rows()
    by_txid = [{key[0]: sorted(row for rows in batch.values() for row in rows) for key, batch in played.committed.batches.items() if batch}
               for played in (here, there)]  # fmt: skip
    assert by_txid[0] == by_txid[1]
    assert not there.errors


async def test_records_of_kafka_are_read_once(kafka: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = await new_topic(partitions=3)
    await produce(kafka, topic, range(500))

    def spout() -> Any:
        config = KafkaBatchSpoutConfig(
            brokers=kafka, topics=topic, group="planned", batch_records=40, stop_at_end=True, fields="line", translator=_line
        )
        return KafkaTransactionalSpout(config)

    played = await play(lambda committed: topology(spout, tmp_path / "failed", committed), jobs=LocalJobs(), max_spout_pending=2)

    assert (tmp_path / "failed").exists()
    assert [row[0] for row in played.committed.rows()] == sorted(str(number) for number in range(500))
    assert not played.errors


def _line(record: Any) -> tuple[str]:
    return (record.value.decode(),)
