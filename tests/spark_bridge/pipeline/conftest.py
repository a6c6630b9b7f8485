"""Pipelines on the session of Spark that all tests of a process share."""

from pathlib import Path

import pytest

from spark_bridge.session import SparkChild
from tests.spark_bridge.pipeline.playing import Playing
from tests.spark_bridge.spark_fixtures import spark_child, temporary_files

__all__ = ["playing", "spark_child", "temporary_files"]


@pytest.fixture
def playing(spark_child: SparkChild, tmp_path: Path) -> Playing:
    """Runs pipelines over a folder of this test."""
    return Playing(spark_child, tmp_path)
