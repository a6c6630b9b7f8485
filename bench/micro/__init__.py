"""Parts of a tuple's way, one by one, through their Python faces. Each function returns the figures of one work."""
