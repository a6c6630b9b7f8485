"""Costs of the hand-over to Spark: rows beside pyarrow alone, calls of Spark's process, latency, a whole pipeline."""
