"""Transactional topologies that are killed at each named step of each phase, and at random instants: begin with `steps`, then `rounds`."""
