"""Kills of transactional topologies at each step of each phase, and at random times. Read `steps` first, then `rounds`."""
