"""The session that all tests of a process share."""

from tests.spark_bridge.spark_fixtures import spark_child, temporary_files

__all__ = ["spark_child", "temporary_files"]
