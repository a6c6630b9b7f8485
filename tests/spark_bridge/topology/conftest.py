"""Fixtures of the tests of topologies on Spark."""

from tests.spark_bridge.topology.spots import spots, spots_file

__all__ = ["spots", "spots_file"]
