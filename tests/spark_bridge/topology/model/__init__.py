"""The transactional model (tests/transactional/model) with its processing phase on Spark's levels: the same plans and the same judge."""
