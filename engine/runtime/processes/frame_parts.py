"""`taken_apart` reads a frame that pickle cannot load, so that only the guilty value is lost.

The parts of the message have a stand-in for each class, function and object. So no code of the values runs. `load` makes one part real.
"""

import copyreg
import io
import logging
import pickle
from typing import Any, Final

from engine.runtime.error_report import safe_repr

SEPARABLE: Final = frozenset(("work", "emits", "log"))
"""Kinds of messages that may lose one value. Any other message has to arrive as a whole."""
_SETTER_CALL: Final = pickle.TUPLE2 + pickle.REDUCE + pickle.POP
"""Call of a function that sets the state of an object. A stand-in would not hear of it."""


class _Global(type):
    """A class or function, by its module and name."""

    path: tuple[str, str]

    def __call__(cls, *arguments: Any) -> Any:
        return _made_by(cls, arguments)

    def __repr__(cls) -> str:
        return cls.path[1]


class _StandIn(metaclass=_Global):
    """An object, by the call that makes it, and by the state and items that it gets then."""

    made_by: tuple[Any, tuple[Any, ...]]
    state: Any
    items: list[Any]
    pairs: list[tuple[Any, Any]]

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        return _made_by(copyreg.__newobj_ex__, (cls, arguments, keywords), cls)  # type: ignore[attr-defined]

    def __call__(self, *arguments: Any) -> Any:
        return _made_by(self, arguments)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        self.items.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.pairs.append((key, value))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return *self.made_by, self.state, iter(self.items), iter(self.pairs)

    def __repr__(self) -> str:
        function, arguments = self.made_by
        if isinstance(function, _Global | _StandIn):
            return f"{function!r}({', '.join(map(repr, arguments))})"
        return f"{arguments[0]!r}({', '.join(map(repr, (*arguments[1], *([self.state] if self.state else []))))})"


def _made_by(function: Any, arguments: tuple[Any, ...], of: type[Any] = _StandIn) -> Any:
    made = object.__new__(of)
    made.made_by, made.state = (function, arguments), None
    made.items, made.pairs = [], []
    return made


class _Outline(pickle.Unpickler):
    """Loads a pickle with stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        return _Global(name, (_StandIn,), {"path": (module, name)})


class _PartPickler(pickle.Pickler):
    """Pickles a part with stand-ins."""

    def persistent_id(self, part: Any) -> tuple[str, str] | None:
        return part.path if isinstance(part, _Global) else None


class _PartLoader(pickle.Unpickler):
    """Loads a part without stand-ins."""

    def persistent_load(self, path: Any) -> Any:
        return self.find_class(*path)


def taken_apart(frame: bytes) -> tuple[Any, ...] | None:
    """Return the message of a frame with stand-ins. None if the message has to arrive as a whole."""
    if _SETTER_CALL in frame or copyreg._inverted_registry:  # type: ignore[attr-defined]  # its cache would get the stand-ins
        return None
    try:
        message = _Outline(io.BytesIO(frame)).load()
    except Exception:  # noqa: BLE001 - such as for a class that a call has made; the caller has the error of the value
        return None
    return message if message[0] in SEPARABLE else None


def load(part: Any) -> Any:
    """Return a part of a message without stand-ins. Raises the error of a value that cannot be loaded."""
    pickled = io.BytesIO()
    _PartPickler(pickled, 5).dump(part)
    pickled.seek(0)
    return _PartLoader(pickled).load()


def load_record(record: Any) -> logging.LogRecord:
    """Return a log record. The text of an attribute that cannot be loaded takes its place."""
    state = record.state if isinstance(record.state, dict) else {"msg": safe_repr(record)}
    attributes = {}
    for name, value in state.items():
        try:
            attributes[name] = load(value)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - code of the value; the message of the record is what counts
            attributes[name] = safe_repr(value)
    return logging.makeLogRecord(attributes)
