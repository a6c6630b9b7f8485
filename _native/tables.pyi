from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

class RootTable:
    """Table from root ids to two machine words."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Size of the slots in bytes."""

@final
class RotatingMap(Generic[K, V]):
    """A map whose entries age by `rotate`. An entry expires in the n-th rotation after its last `put`.

    `buckets` is n, at least 2. `expire(key, value)` is called for each entry that expires.
    """

    def __init__(self, buckets: int = 3, expire: Callable[[K, V], object] | None = None) -> None: ...
    @property
    def buckets(self) -> int:
        """Number of rotations from the last `put` of an entry until it expires."""

    def put(self, key: K, value: V) -> None:
        """Write an entry. Its age begins again at 0."""

    @overload
    def get(self, key: K, default: None = None) -> V | None:
        """Return the value of a key, or the default. The entry does not become newer."""

    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def remove(self, key: K) -> V | None:
        """Remove an entry without a call of `expire`. Return its value, None if there is no entry."""

    def rotate(self) -> dict[K, V]:
        """Make every entry one rotation older, and return the entries that expired."""

    def clear(self) -> None:
        """Remove all entries without a call of `expire`."""

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over (key, value), the newest bucket first. The map must not change meanwhile."""

    def __iter__(self) -> Iterator[K]: ...
    def __contains__(self, key: object) -> bool: ...
    def __len__(self) -> int: ...
