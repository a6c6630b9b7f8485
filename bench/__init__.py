"""Benchmarks: `micro` times parts, `macro` whole topologies, `compare` the same work on peers. Start at `bench.cli`."""
