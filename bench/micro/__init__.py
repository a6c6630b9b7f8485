"""Single steps of a tuple, called through their Python API. Each function returns the figures of one work."""
