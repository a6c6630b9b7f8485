"""The same work on peers: each contestant is a command that prints nanoseconds per unit; `bench.compare.contest` pairs them."""
