"""The next start removes staging folders of killed drivers, and never one of a living driver."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_bridge.sinks import Parquet, SinkBatch
from spark_bridge.sinks.staging import PREFIX, UNKNOWN, WRITERS, is_dead, writer_entry
from tests.spark_bridge.sinks import half_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def left_in(folder: Path) -> list[str]:
    return sorted(found.name for found in (folder / "words").glob(f"{PREFIX}*"))


def driver(folder: Path, how: str, txid: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", half_written.__name__, str(folder), how, str(txid)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.guarantee("SP-1")
@pytest.mark.timeout(300)
@pytest.mark.deep
def test_staging_folders_of_killed_drivers_are_removed_and_of_living_ones_kept(spark: "SparkSession", tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    os.mkfifo(tmp_path / "go")
    sink = Parquet(str(tmp_path / "words"))
    assert driver(tmp_path, "killed", 0).wait(120) == 1
    [of_the_killed] = left_in(tmp_path)

    living = driver(tmp_path, "held", 1)
    assert (tmp_path / "begun").read_text() == "begun"
    [of_the_living] = left_in(tmp_path)
    assert of_the_living != of_the_killed, "the next start has removed it"

    rows = spark.createDataFrame([("b", 2, 2)], half_written.SCHEMA)
    sink.write(rows, SinkBatch("words", "two", 0))
    assert left_in(tmp_path) == [of_the_living], "its process is alive"
    (tmp_path / "go").write_text("go")
    assert living.wait(120) == 0
    assert left_in(tmp_path) == []
    assert sorted(row.word for row in spark.read.parquet(sink.path).collect()) == ["a", "b"]


def test_a_process_counts_as_dead_only_with_proof() -> None:
    mine = writer_entry(os.getpid()).removeprefix(f"{WRITERS}/")
    machine, pid, ticks = mine.removesuffix(".json").split("-")
    assert not is_dead(mine)
    assert is_dead(f"{machine}-{pid}-{int(ticks) - 1}.json"), "another process has its PID now"
    assert not is_dead(f"{machine[:-1]}0-{2**22}-{ticks}.json"), "of another machine, boot or container"
    assert not is_dead(UNKNOWN.removeprefix(f"{WRITERS}/"))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        note = writer_entry(other.pid).removeprefix(f"{WRITERS}/")
        assert not is_dead(note)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(note), "it is a zombie"
    assert is_dead(note)
