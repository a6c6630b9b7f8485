"""A module that raises while it is imported, like a user's state provider with a mistake."""

raise ZeroDivisionError
