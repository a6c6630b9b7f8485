"""Costs of the hand-over to Spark (rows compared with pyarrow alone, calls of Spark's process, latency, a whole pipeline)."""
