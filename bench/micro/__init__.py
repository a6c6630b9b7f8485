"""The parts of a tuple's way, one by one, through their Python faces."""
