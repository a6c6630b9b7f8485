"""Costs and gains of transactions (batches compared with single tuples, small batches, pipelining, word counts of a topic)."""
