"""Peers: other engines, clients and hand-written loops that do the works of `bench.registry`."""
