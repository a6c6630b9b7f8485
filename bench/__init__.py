"""Benchmarks of the engine, alone and beside its peers.

- `registry` lists every work and every peer. A new work or peer is one entry in the module of its group.
- `rounds` runs a work alone or in turn with a peer. `sweeps` finds the best setting. `process` and `run` execute one measured run.
- `results` has medians and ratios. `targets` compares them with bounds, `tables` prints them, and `chart` draws the picture of the README.
- `micro`, `macro`, `state`, `kafka`, `transactions`, `spark` and `flow` implement the works on the engine, `peers` on other software.
"""
