"""Costs and gains of transactions: batches beside single tuples, small batches, pipelining, word counts of a topic."""
