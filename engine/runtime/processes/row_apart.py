"""`RowApart` is an emitted row that goes to the run alone, because another row beside it cannot be stored or loaded."""

from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import UsageError
from engine.runtime.processes.packed import Packed

Anchor: TypeAlias = int | tuple[int, ...]
"""Number of the input that a row depends on, or several of them. 0: none."""

STORE: Final = "pickle cannot store and load"
LOAD: Final = "the run cannot load"


class RowApart(NamedTuple):
    """A row of a stream."""

    target: tuple[str, int | None]
    """The stream, and the task of a direct stream."""
    values: Packed
    anchor: Anchor
    batch: Any
    """The attempt of a batch that the row belongs to, None for a bolt without batches."""

    def anchors(self) -> tuple[int, ...]:
        """Return the numbers of the inputs that fail if the row cannot be emitted."""
        if isinstance(self.anchor, tuple):
            return self.anchor
        return (self.anchor,) if self.anchor else ()

    def lost(self, component_id: str, cannot: str, why: str) -> UsageError:
        """Return the error of a row that cannot be stored or loaded."""
        hint = "Emit values that pickle can store and load, or leave out processes=True."
        if cannot == LOAD:
            hint = "Import its module in the program of the run too. Or emit only values whose classes the run knows."
        text = f"bolt {component_id!r} runs in a process and has emitted a value that {cannot}: {self.values.text} ({why})"
        return UsageError(text, hint=hint)
