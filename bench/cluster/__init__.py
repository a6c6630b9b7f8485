"""Transactional topologies on Spark, beside the engine on one core and beside PySpark by hand."""
