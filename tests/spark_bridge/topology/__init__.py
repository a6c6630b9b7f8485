"""Tests of topologies on Spark."""
