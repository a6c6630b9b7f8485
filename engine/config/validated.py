"""Makes settings classes check all values in the constructor and report all faults at once."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from engine.config.config import unknown_key
from engine.config.setting import SettingFault, settings_of
from engine.errors import ConfigError

_T = TypeVar("_T")


def validated(settings_class: type[_T]) -> type[_T]:
    """Make the constructor of a frozen keyword-only dataclass check its values and raise ConfigError with all faults.

    Fields declared by `setting(...)` are checked by their declaration. The class checks the rest in `_faults()`, which yields texts.
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
        faults += list(_check_declared(self, settings))
        if not faults:  # _faults() compares values, so each must have its type first
            faults += self._faults()
        if faults:
            raise ConfigError(faults, headline=settings_class.__name__)

    settings_class.__init__ = init  # type: ignore[method-assign]
    return settings_class


def _check_declared(made: Any, settings: Any) -> Iterator[str]:
    for name, spec in settings.items():
        try:
            object.__setattr__(made, name, spec.check(getattr(made, name)))
        except SettingFault as fault:
            yield f"{name} {fault}."


def set_frozen(made: object, name: str, value: object) -> None:
    """Replace a field of a frozen object by its normalized value.

    Only `_faults()` may call this function, before other code sees the object.
    """
    object.__setattr__(made, name, value)
