"""Costs of exactly once in plain topologies (words of a topic, latency, answers, awaited calls, recovery, failing rows)."""
