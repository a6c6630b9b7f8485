"""Flow-control topologies that are killed at each named step and at random instants: see `steps`, `rounds` and `judge`."""
