"""Runs of pipelines over a folder of the test, in the session that all tests of a process share."""

from pathlib import Path

import pytest

from spark_bridge.process import SparkChild
from tests.spark_bridge.pipeline.playing import Playing


@pytest.fixture
def playing(spark_child: SparkChild, tmp_path: Path) -> Playing:
    """Return a runner of pipelines over a folder of this test."""
    return Playing(spark_child, tmp_path)
