"""What the hand-over to Spark costs, beside pyarrow alone; each run a process of its own."""
