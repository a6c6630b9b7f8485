"""A run and its actors: the tasks that poll, execute and settle tuples, their wiring, and what watches over them."""
