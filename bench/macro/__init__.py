"""Whole topologies through the engine's public API. Measures rates, latency, memory, idle cost and start-up."""
