"""Folder and database of a round."""

from pathlib import Path

import pytest

from tests.servers import spark_programs
from tests.servers.required import required
from tests.spark_bridge.kills.places import Places


@pytest.fixture
def places(new_database: str, tmp_path: Path) -> Places:
    """Return places on this machine. Delta Lake is left to sinks/test_crashes and tests.soak.spark."""
    required(spark_programs.why_not() or spark_programs.why_no_jdbc())
    jars = tuple(map(str, spark_programs.jdbc_jars()))
    return Places(folder=str(tmp_path), database=new_database, table="rows", jars=jars, has_delta=False)
