"""What the tests of the bridge share: one child process with a session, where files go, a Python without the package."""

from tests.spark_bridge.bare_python import bare_python
from tests.spark_bridge.spark_fixtures import spark_child, spark_here, temporary_files

__all__ = ["bare_python", "spark_child", "spark_here", "temporary_files"]
