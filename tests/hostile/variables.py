"""Context variables with hostile values. In all rows, components check that they see their own (ACK-17)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from engine.transactional import BatchBolt
from tests.hostile.misdeeds import Misdeed


class Held:
    """A value of a context variable. Whoever compares or shows it, or asks for its truth, gets an error."""

    __eq__ = __repr__ = __hash__ = __bool__ = __reduce_ex__ = Misdeed(ValueError)  # type: ignore[assignment]

    def __init__(self, holder: Any) -> None:
        self.holder = holder


OWNER: Final[ContextVar[Held]] = ContextVar("OWNER")
"""The task whose `prepare` or `open` has set it."""
CALL: Final[ContextVar[Held]] = ContextVar("CALL")
"""The input of the call that has set it."""
HOSTILE: Final[ContextVar[Any]] = ContextVar("HOSTILE", default=None)


def claim(component: Any) -> None:
    """Set the variable of an instance. It begins without one, but all batches of a task share their variables."""
    held = OWNER.get(None)
    assert held is None or (isinstance(component, BatchBolt) and held.holder == _task(component)), "another instance has set it"
    OWNER.set(Held(_task(component)))


def check_owner(component: Any) -> None:
    """Raise AssertionError if the variables are those of another instance, or of none."""
    held = OWNER.get(None)
    assert held is not None, "the variable of prepare is gone"
    assert held.holder == _task(component), "the variable belongs to another task"


def _task(component: Any) -> tuple[str, int]:
    return component.context.component_id, component.context.task_id


def begin_call(number: int) -> Callable[[], None]:
    """Set the variable of a call. Return what raises AssertionError if another call has changed it."""
    held = Held(number)
    CALL.set(held)

    def check() -> None:
        assert CALL.get() is held, "two calls share a variable"

    return check


class Owns:
    """A component whose instances claim a variable in `prepare`."""

    def prepare(self) -> None:
        claim(self)


def _hostile_value(misdeed: Misdeed) -> Any:
    names = ("__eq__", "__repr__", "__str__", "__hash__", "__bool__", "__reduce_ex__", "__copy__", "__deepcopy__")
    return type("Hostile", (), dict.fromkeys(names, misdeed))()


@contextmanager
def hostile_variables(misdeed: Misdeed) -> Iterator[None]:
    """Enter a run with a hostile value in a variable."""
    token = HOSTILE.set(_hostile_value(misdeed))
    try:
        yield
    finally:
        HOSTILE.reset(token)


def sets_variables(misdeed: Misdeed, number: int, component: Any) -> None:
    """Replace the value by another hostile one."""
    HOSTILE.set(_hostile_value(misdeed))
