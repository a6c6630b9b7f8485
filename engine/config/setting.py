"""Declares a setting with its type, range, choices and help. Also checks values and parses texts.

`Config` declares each of its fields with `setting(...)`, and the command line reads the same declarations.
"""

import dataclasses
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from engine.plain_numbers import plain_integer, plain_number

_METADATA_KEY: Final = "setting"
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class SettingFault(ValueError):
    """A value that a setting does not allow. The text names the expected and the given value."""


def setting(default: Any, *, help: str, minimum: float | None = None, above: float | None = None, maximum: float | None = None) -> Any:
    """Declare a field of a settings class. The value is at least `minimum`, greater than `above`, and at most `maximum`."""
    limits = {"help": help, "minimum": minimum, "above": above, "maximum": maximum}
    return dataclasses.field(default=default, metadata={_METADATA_KEY: limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Used for checks, `--show-config` and `--help`."""

    name: str
    kind: type[bool] | type[int] | type[float] | type[str]
    optional: bool
    choices: tuple[str, ...]
    words: tuple[str, ...]
    """Words allowed instead of a number, such as `auto`."""
    default: object
    help: str
    minimum: float | None
    above: float | None
    maximum: float | None

    def check(self, value: object) -> object:
        """Return the value in its stored form, or raise `SettingFault`.

        The check of a float setting converts an int to a float, and a number of another library, such as NumPy, becomes one of Python. A
        member of an enum becomes its plain value.
        """
        given = value
        if value is None and self.optional:
            return None
        if isinstance(value, str) and value in self.words:
            return next(word for word in self.words if word == value)
        if self.choices:
            fits = isinstance(value, str) and value in self.choices
        elif self.kind is bool:
            fits = isinstance(value, bool)
        elif self.kind is str:
            fits = isinstance(value, str) and bool(value.strip())
        else:
            value = plain_integer(value) if self.kind is int else plain_number(value)
            fits = value is not None and self._in_range(value)
        if not fits:
            raise SettingFault(f"must be {self.expected()}, not {_shown(given)}")
        if self.choices:
            return next(choice for choice in self.choices if choice == value)
        return self.kind(value)  # type: ignore[arg-type, call-overload]

    def parse(self, text: str) -> object:
        """Parse a text such as `none`, `yes` or `1_000` and return the value, or raise `SettingFault`."""
        stripped = text.strip()
        folded = stripped.casefold()
        if self.optional and folded == "none":
            return None
        if self.choices or folded in self.words:
            return self.check(folded)
        if self.kind is bool:
            if folded in _TRUE or folded in _FALSE:
                return folded in _TRUE
            raise SettingFault(f"must be {self.expected()}, not {text!r}")
        if self.kind is str:
            return self.check(stripped)
        try:
            number = self.kind(stripped)
        except ValueError:
            raise SettingFault(f"must be {self.expected()}, not {text!r}") from None
        return self.check(number)

    def expected(self) -> str:
        """Describe the allowed values in words: `an integer of at least 1, or none`."""
        if self.choices:
            *others, last = map(repr, self.choices)
            words = f"{', '.join(others)} or {last}" if others else last
        elif self.kind is bool:
            words = "true or false"
        elif self.kind is str:
            words = "a non-empty string"
        else:
            number = " ".join(filter(None, ("an integer" if self.kind is int else "a number", self._range())))
            words = ", ".join((number, *map(repr, self.words)))
        return f"{words}, or none" if self.optional else words

    def _range(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f"from {self.minimum:_} to {self.maximum:_}"
        low = "" if self.minimum is None else f"of at least {self.minimum:_}"
        above = "" if self.above is None else f"above {self.above:_}"
        high = "" if self.maximum is None else f"of at most {self.maximum:_}"
        return " and ".join(filter(None, (low, above, high)))

    def _in_range(self, value: Any) -> bool:
        if not -sys.float_info.max <= value <= sys.float_info.max:  # nan, or a number that is too large for a float
            return False
        at_least = self.minimum is None or value >= self.minimum
        more_than = self.above is None or value > self.above
        return at_least and more_than and (self.maximum is None or value <= self.maximum)


def _shown(value: object) -> str:
    """Return a value for an error text, with its type if that is not obvious."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to format very long integers
    text = repr(value)
    if len(text) > 80:
        text = text[:77] + "..."
    return text if value is None or isinstance(value, bool | int | float | str) else f"{text} ({type(value).__name__})"


def settings_of(config_class: type) -> Mapping[str, Setting]:
    """Return the settings that a dataclass declares with `setting(...)`, in their order."""
    hints = get_type_hints(config_class)
    return types.MappingProxyType(
        {
            field.name: Setting(name=field.name, default=field.default, **_kind(hints[field.name]), **field.metadata[_METADATA_KEY])
            for field in dataclasses.fields(config_class)
            if _METADATA_KEY in field.metadata
        }
    )


def _kind(hint: Any) -> dict[str, Any]:
    """Read an annotation such as `int | None`, `Literal["a", "b"]` or `int | Literal["auto"]`."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    optional = types.NoneType in parts
    texts = tuple(text for part in parts if get_origin(part) is Literal for text in get_args(part))
    kinds = [part for part in parts if part is not types.NoneType and get_origin(part) is not Literal]
    if kinds:
        return {"kind": kinds[0], "optional": optional, "choices": (), "words": texts}
    return {"kind": str, "optional": optional, "choices": texts, "words": ()}
