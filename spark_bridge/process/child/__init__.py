"""Runs in Spark's process. Imports no engine."""
