from _native.tables import RootTable

LIFETIME: int

class AgingTable(RootTable):
    """Open trees with their ages. Its methods with Python signatures are for tests."""

    @property
    def timeouts(self) -> bool: ...
    @property
    def generation(self) -> int: ...
    def begin_rotation(self) -> None:
        """Start a rotation and its sweep."""

    def sweep(self, slots: int) -> list[tuple[int, int]]:
        """Sweep up to `slots` more slots. Return each expired root with its spout task (-1: none)."""

    def rotate(self, slots_per_slice: int = 65536) -> list[tuple[int, int]]:
        """Run one rotation and its whole sweep, in slices. Return the expired roots like `sweep`."""

    @property
    def sweeping(self) -> bool: ...
