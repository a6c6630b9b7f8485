"""One case of the campaign, which travels in the values of its tuples, also into a child process."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from engine import FailTuple, FatalError, Fields
from tests.hostile.misdeeds import Misdeed
from tests.hostile.surroundings import SURROUNDINGS, Surroundings
from tests.hostile.variables import check_owner

FIELDS: Final = Fields("number", "value")
NUMBERS: Final = 10
RAISES: Final = 3
REFUSES: Final = 7

_ENTERED: Final = ExitStack()
"""Surroundings of a child process. They stay until it ends."""
_seen = Counter[str]()


@dataclass(frozen=True)
class Case:
    """`place` and `misdeed` are what is hostile. `scenario` is how the components behave: a key of `forms.SCENARIOS`."""

    place: str
    misdeed: Misdeed
    scenario: str
    number: int = field(default_factory=iter(range(1 << 60)).__next__)
    pid: int = field(default_factory=os.getpid)

    @property
    def surroundings(self) -> Surroundings:
        return SURROUNDINGS[self.place]

    def values(self) -> Iterator[tuple[int, "Value"]]:
        """Yield the values of the tuples that a source emits."""
        return ((number, Value(number, self)) for number in range(NUMBERS))

    def is_first(self, what: str) -> bool:
        """Tell whether this is asked for the first time of this case in this process."""
        key = f"{self.number} {what}"
        _seen[key] += 1
        return _seen[key] == 1

    def act(self, value: "Value", component: Any = None) -> None:
        """Behave like a component that gets this value: raise, refuse or return. `component`: its instance, unless it is a function."""
        if component is not None:
            check_owner(component)
        self.surroundings.in_call(self.misdeed, value.number, component)  # in a child, what it prints first goes to the run
        if os.getpid() != self.pid and self.is_first("a value in a child"):
            _ENTERED.enter_context(self.surroundings.around(self.misdeed))
        if value.number == RAISES and self.scenario == "ends":
            raise FatalError("cannot go on") from BadInput(value)
        if value.number == RAISES and self.scenario in ("fails", "diverts", "source raises", "dies"):
            raise BadInput(value)
        if value.number == RAISES and self.scenario == "tries again" and self.is_first("the bad value"):
            raise BadInput(value)
        if value.number == REFUSES and self.scenario in ("fails", "diverts"):
            raise FailTuple("refused", report=True) from BadInput(value)


@dataclass
class Verdicts:
    """The verdicts of the numbers, in the order in which they came to their source."""

    acked: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)


class Value:
    """A value of a tuple, and a message id. One of its methods may be hostile."""

    def __init__(self, number: int, case: Case) -> None:
        self.number = number
        self.case = case

    def _does(self, method: str, usual: Any) -> Any:
        return self.case.misdeed() if self.case.surroundings.method == method else usual

    def __repr__(self) -> str:
        return self._does("repr", f"Value({self.number})")  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._does("str", f"value {self.number}")  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return self._does("hash", id(self))  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return self._does("eq", self is other)  # type: ignore[no-any-return]


class BadInput(Exception):
    """The error of a component. Its text may be hostile, and its notes too."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return self.value._does("str of errors", f"a bad input: {self.value}")  # type: ignore[no-any-return]

    def __getattribute__(self, name: str) -> Any:
        if name in ("__notes__", "add_note"):
            return self.value._does("notes of errors", super().__getattribute__(name))
        return super().__getattribute__(name)
