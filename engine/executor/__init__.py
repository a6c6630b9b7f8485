"""A tuple's life: the actors that poll, execute, settle, and the wiring between them."""
