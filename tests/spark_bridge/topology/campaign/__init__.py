"""Kills around topologies on a real Spark: engine, Spark's process and JVM, Python workers, executors and worker daemons."""
