"""Costs of state (word counts on stores, latency during checkpoints, commits, recovery, memory, values of transactions)."""
