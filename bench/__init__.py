"""Benchmarks of the engine, alone and beside its peers.

- `registry` names every work and every peer. A new one is one entry there.
- `rounds` runs a work alone or in turn with a peer, `sweeps` looks for the best setting. `process` and `run` are one measured run.
- `results` holds medians and ratios. `targets` judges them, `tables` prints them, `chart` draws the picture of the README.
- `micro`, `macro`, `state`, `kafka`, `transactions`, `spark` and `flow` hold the engine's side of the works, `peers` the other side.
"""
