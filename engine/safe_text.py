"""Texts of users' values for messages. They are bounded, and making one never raises, whatever the value's own code does.

The engine makes such texts inside its actors, where an exception would kill a task that has done nothing wrong.
"""


def safe_repr(value: object, most: int = 500, end: str = "...") -> str:
    """Return the repr of a value, shortened. If the repr raises, the text names the type of its error."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            value = value[: most + 1]  # the repr of a long text would be made whole before it is cut
        text = str.__str__(repr(value))  # `__repr__` may return a subclass of str with code of its own
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a __repr__ of user code; the type of its error becomes the text
        text = f"<{type_name(value)} that cannot be shown: a value's repr raised {type_name(error)}>"
    return shorten(text, most, end)


def safe_str(value: object) -> str:
    """Return `str(value)`. If it raises, the text names the type of its error."""
    try:
        return str.__str__(str(value))  # `__str__` may return a subclass of str, which pickle may not be able to store
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a __str__ of user code; its error becomes the text
        return f"its text cannot be shown, {type_name(error)}"


def shorten(text: str, most: int = 500, end: str = "...") -> str:
    """Cut a text after `most` characters."""
    return text if len(text) <= most else f"{text[: most - len(end)]}{end}"


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return type.__dict__["__name__"].__get__(type(value))  # type: ignore[no-any-return]  # a metaclass may have a `__name__` that raises
