"""What transactions cost, and what they save: whole topologies, each run a process of its own."""
