"""Whole topologies through the engine's public face: rates, latency, memory, idle cost, start-up."""
