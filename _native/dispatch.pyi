from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from _native.mailbox import Mailbox
from _native.tuples import Source

@final
class Outlet:
    def __init__(
        self,
        choice: int,
        targets: list[tuple[int, Mailbox]],
        *,
        start: int = 0,
        positions: Sequence[int] = (),
        names: Iterable[str] = (),
        key_groups: int = 128,
        chooser: Callable[[tuple[Any, ...]], Iterable[int]] | None = None,
        stops: bool = True,
    ) -> None: ...
    @property
    def choice(self) -> int: ...
    @property
    def tasks(self) -> int: ...
    @property
    def task_ids(self) -> list[int]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def picks_one(self) -> bool: ...
    @property
    def stops(self) -> bool: ...
    def choose(self, values: tuple[Any, ...]) -> list[int]: ...

@final
class OutStream:
    def __init__(self, origin: Source, outlets: list[Outlet], *, direct: bool = False) -> None: ...
    @property
    def outlets(self) -> list[Outlet]: ...
    @property
    def direct(self) -> bool: ...

@final
class SentCounts:
    def __init__(self, targets: int) -> None: ...

@final
class Pulse:
    def __init__(self) -> None: ...
    @property
    def bolts_behind(self) -> int: ...
