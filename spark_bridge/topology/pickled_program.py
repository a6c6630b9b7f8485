"""The bytes of a program, with the classes that exist only in files that executors cannot import.

Rows are pickled by reference: a value is stored with the name of its class. Executors cannot import a topology file, a script or a
notebook. So their classes are sent by value, and registered there under the names that they have in the engine's process. Sending the
file itself would run it again on each executor, with all that it does when it is imported.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from spark_bridge.process import pickling
from spark_bridge.topology.program import Program

_ENGINE: Final = "engine."
_USER_FILES: Final = "engine.user_files."


def pickle_program(program: Program) -> bytes:
    """Return a program as bytes, with the classes of values that executors cannot import."""
    return pickling.dumps((program, tuple(_value_classes())))


def unpickle_program(pickled: bytes) -> Program:
    """Return the program. Values of its classes can then be pickled and unpickled in this process."""
    program, classes = pickling.loads(pickled)
    for each in classes:
        _register(each)
    loaded: Program = program
    return loaded


def _value_classes() -> Iterator[type]:
    """Yield the classes of modules that executors cannot import. Omits components, and classes that cannot be pickled."""
    for module in list(sys.modules.values()):
        if pickling.is_sent_by_value(module):
            for name, value in list(vars(module).items()):
                if _is_class_of(module, name, value) and _can_be_sent(value):
                    yield value


def _is_class_of(module: ModuleType, name: str, value: object) -> bool:
    """Tell whether a module defines this class for values. Instances of components are no values."""
    return (
        isinstance(value, type)
        and (value.__module__, value.__qualname__) == (module.__name__, name)
        and not any(base.__module__.startswith(_ENGINE) and not base.__module__.startswith(_USER_FILES) for base in value.__mro__)
    )


def _can_be_sent(value: type) -> bool:
    try:
        pickling.dumps(value)
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001 - of user code: a method uses an open file, for example
        return False
    return True


def _register(value: type) -> None:
    """Make a class importable under its name. In the engine's process this changes nothing, because the class is the module's own."""
    module = sys.modules.get(value.__module__)
    if module is None:
        module = sys.modules[value.__module__] = ModuleType(value.__module__)
    setattr(module, value.__qualname__, value)
