"""Where the processes of a round work."""

from pathlib import Path

import pytest

from tests.servers import spark_programs
from tests.servers.required import required
from tests.spark_bridge.kills.places import Places


@pytest.fixture
def places(new_database: str, tmp_path: Path) -> Places:
    """On this machine, with Delta Lake where that can be had."""
    required(spark_programs.why_not() or spark_programs.why_no_jdbc())
    jars = tuple(map(str, (*spark_programs.delta_jars(), *spark_programs.jdbc_jars())))
    return Places(folder=str(tmp_path), database=new_database, table="rows", jars=jars, has_delta=bool(spark_programs.delta_jars()))
