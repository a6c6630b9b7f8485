from typing import final

@final
class EdgeIds:
    """Generator of non-zero 64-bit ids. The same seed gives the same ids on every platform."""

    def __init__(self, seed: int | None = None) -> None: ...
    def draw(self) -> int:
        """Draw the next id."""

    def reseed(self, seed: int | None = None) -> None:
        """Start again from `seed`, like a new generator."""
