"""Kills of transactional topologies with their processing phase on Spark.

Topology, steps and judge are those of tests/transactional/kills.
"""
