"""What a tuple carries, and what is said when a component emits something else."""

from typing import Any, TypeAlias

from engine.errors import UsageError
from engine.topology.fields import Fields

Values: TypeAlias = tuple[object, ...] | list[Any]
"""The values of one tuple, one for each field. A list is copied into a tuple."""

_SHOWN_CHARACTERS = 80


def wrong_values(where: str, values: object, fields: Fields | None = None) -> UsageError:
    """Return the error for something that is not the values of a tuple, or has the wrong number of them.

    `where` names the place and the verb: `bolt 'split': execute() yielded`. Called on the failing path only.
    """
    shown = shorten(values)
    if not isinstance(values, (tuple, list)):
        written = shown if len(shown) <= 20 else "value"
        return UsageError(
            f"{where} {shown} ({type(values).__name__}), which is not a tuple of values",
            hint=f"Write ({written},): a tuple, though it holds one value.",
        )
    names = "" if fields is None else f" ({', '.join(fields.names)})"
    wanted = "another number" if fields is None else str(len(fields))
    return UsageError(
        f"{where} {shown}: {len(values)} value{'' if len(values) == 1 else 's'} where {wanted} must stand{names}",
        hint="Emit one value for each field, or change output_fields.",
    )


def shorten(value: object) -> str:
    """Return the repr of a value, cut to a length that fits an error."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
