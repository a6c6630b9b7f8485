"""A query dies at each point that could lose or duplicate a row. Every sink has every row once."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from tests.servers import spark_programs
from tests.spark_bridge.sinks import crashing
from tests.spark_bridge.sinks.kinds import KINDS, rows_in
from tests.spark_bridge.writing import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.deep
TXIDS = 3
"""One micro-batch each. The kills strike in the first two, and the last one must not be needed to repair them."""


def kinds() -> list[str]:
    """Return the kinds that work here. Delta Lake does not support every version of Spark."""
    return [kind for kind in KINDS if kind != "delta" or spark_programs.why_no_delta() is None]


@pytest.mark.guarantee("SP-1")
@pytest.mark.timeout(300)
def test_every_sink_has_every_row_once(spark: "SparkSession", with_jdbc: None, new_database: str, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "handover", consumers=["c"])
    writer.commit_many(TXIDS, rows=4)
    sinks = crashing.sinks_of(kinds(), tmp_path, new_database)
    for point in crashing.IN_SOURCE:
        (tmp_path / "point").write_text(point)
        with pytest.raises(StreamingQueryException):
            crashing.run(spark, sinks, tmp_path)
        assert not (tmp_path / "point").exists()
    for point in crashing.IN_DRIVER:
        (tmp_path / "point").write_text(point)
        command = [sys.executable, "-m", crashing.__name__, str(tmp_path), new_database, *kinds()]
        assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 1
        assert not (tmp_path / "point").exists()
    crashing.run(spark, sinks, tmp_path)
    expected = [(str(txid), n, txid) for txid in range(1, TXIDS + 1) for n in range(4)]
    assert {kind: rows_in(sink, spark) for kind, sink in zip(kinds(), sinks, strict=True)} == dict.fromkeys(kinds(), expected)
    position = writer.handover.consumer("c").read()
    assert (position.planned, position.committed) == (TXIDS, TXIDS - 1)
