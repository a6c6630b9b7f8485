"""What state costs: whole topologies and single checkpoints, each run a process of its own."""
