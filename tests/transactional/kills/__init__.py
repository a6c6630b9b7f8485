"""Kills transactional topologies at each named step of each phase, and at random moments. Read `steps` first, then `rounds`."""
