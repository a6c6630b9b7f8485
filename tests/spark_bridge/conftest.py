"""Fixtures of all tests of the bridge: one child process with a session, temporary files, a Python without the package."""

from tests.spark_bridge.bare_python import bare_python, barest_python
from tests.spark_bridge.spark_fixtures import spark_child, spark_here, temporary_files

__all__ = ["bare_python", "barest_python", "spark_child", "spark_here", "temporary_files"]
