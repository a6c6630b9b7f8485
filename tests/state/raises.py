"""A module that raises while it is imported: a state provider of somebody's, with a mistake in it."""

raise ZeroDivisionError
