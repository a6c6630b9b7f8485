"""Frozen settings that are valid once they exist: all faults at once, each with its fix."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from engine.config.config import unknown_key
from engine.config.setting import SettingFault, settings_of
from engine.errors import ConfigError

_T = TypeVar("_T")


def judged(settings_class: type[_T]) -> type[_T]:
    """Have a frozen keyword-only dataclass judge its values when it is made; raises ConfigError with every fault.

    Fields that are declared by `setting(...)` are judged by it. The rest is said by the class itself in `_faults()`, which yields texts.
    """
    generated: Callable[..., None] = settings_class.__init__
    fields = dataclasses.fields(settings_class)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    needed = [field.name for field in fields if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
    settings = settings_of(settings_class)

    @functools.wraps(generated)
    def init(self: Any, **values: Any) -> None:
        faults = [unknown_key(key, names) for key in values if key not in names]
        faults += [f"{name} is missing." for name in needed if name not in values]
        known = {name: values.get(name) for name in needed} | {key: value for key, value in values.items() if key in names}
        generated(self, **known)
        faults += list(_check_plain(self, settings))
        if not faults:  # what contradicts can only be told of values that are of their types
            faults += self._faults()
        if faults:
            raise ConfigError(faults, headline=settings_class.__name__)

    settings_class.__init__ = init  # type: ignore[method-assign]
    return settings_class


def _check_plain(made: Any, settings: Any) -> Iterator[str]:
    for name, spec in settings.items():
        try:
            object.__setattr__(made, name, spec.check(getattr(made, name)))
        except SettingFault as fault:
            yield f"{name} {fault}."


def keep(made: object, name: str, value: object) -> None:
    """Set a field of a frozen object that is being made to its normal form."""
    object.__setattr__(made, name, value)
