"""`GeneratorOptions` has the arguments of `@spout`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from engine.api.fields import Fields
from engine.errors import Failure

Row: TypeAlias = tuple[object, ...]
GiveUp: TypeAlias = Callable[[Row, Failure], None]


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """Arguments of `@spout`."""

    fields: Fields
    max_retries: int | None
    on_give_up: GiveUp | None
    restartable: bool
    burst: bool
    positions: bool = False
    """True: the function takes the parameter `after`, and yields pairs of a position and a row."""
    repeatable: bool = False
    """True: each call yields the same rows, so their number is the position."""

    @property
    def rewinds(self) -> bool:
        """True if the spout has positions."""
        return self.positions or self.repeatable
