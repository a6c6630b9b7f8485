"""Bolts whose inputs carry the plan of their own trees, in a module that a child process can import."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from engine import Bolt, Burst, BurstBolt, FailTuple, Fields, Tuple

Deed: TypeAlias = Literal["ack", "twice", "reset", "later", "fail", "refuse", "raise", "forget"]
Kind: TypeAlias = Literal["plain", "async", "burst", "settling burst", "async burst"]
STREAMS: Final = {"default": Fields("twig", "label"), "seen": Fields("label")}


@dataclass(frozen=True)
class Twig:
    """Plan of one tuple: its bolt emits the children, and then does the deed."""

    label: int
    deed: Deed
    is_joined: bool
    """Its emit has a second tuple as an anchor, if its bolt has one that is not settled. So it belongs to two trees."""
    children: tuple["Twig", ...] = ()

    def all(self) -> Iterator[tuple[int, "Twig"]]:
        """Yield this twig and all below it, each with its depth."""
        yield 0, self
        for child in self.children:
            yield from ((depth + 1, twig) for depth, twig in child.all())


def emit_children(collector: Any, tup: Tuple, others: Sequence[Tuple]) -> Twig:
    """Report an input to the sink, and emit its children. Return its plan."""
    twig: Twig = tup["twig"]
    collector.emit((twig.label,), tup, "seen")
    for child in twig.children:
        anchors: Any = [tup, *others] if child.is_joined else [tup, tup] if child.label % 3 == 0 else tup
        collector.emit((child, child.label), anchors)
    return twig


class Single(Bolt):
    """Takes one tuple at a time."""

    output_fields = STREAMS

    def prepare(self) -> None:
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.act(tup)

    def act(self, tup: Tuple) -> None:
        """Emit the children, and do the deed."""
        twig = emit_children(self.collector, tup, self.held[-1:])
        match twig.deed:
            case "fail":
                self.collector.fail(tup, "it is planned")
            case "refuse":
                raise FailTuple("it is planned")
            case "raise":
                raise ValueError("it is planned")
            case "later":
                self.held.append(tup)
                self.context.create_task(self.ack_later())
            case "forget":
                pass
            case _:
                self.ack(tup, twig.deed)

    def ack(self, tup: Tuple, deed: Deed) -> None:
        """Ack a tuple, maybe after a reset of its timeout, or twice with a fail between."""
        if deed == "reset":
            self.collector.reset_timeout(tup)
        self.collector.ack(tup)
        if deed == "twice":
            self.collector.fail(tup)
            self.collector.ack(tup)

    async def ack_later(self) -> None:
        """Ack the oldest tuple that is held."""
        await asyncio.sleep(0.001)
        self.collector.ack(self.held.pop(0))


class AsyncSingle(Single):
    """Takes several tuples at a time."""

    concurrency = 5

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(tup["label"] % 3 / 1000)
        self.act(tup)


class Many(BurstBolt):
    """Takes bursts. It never acks a tuple itself, so the emits of a call that raises are taken back."""

    output_fields = STREAMS
    settles = False

    def execute_many(self, burst: Burst) -> Any:
        for at in range(len(burst)):
            self.act(burst, at)

    def act(self, burst: Burst, at: int) -> None:
        """Emit the children of a tuple, and do the deed."""
        tup = burst[at]
        match emit_children(self.collector, tup, burst[at + 1 : at + 2]).deed:
            case "fail" | "forget":
                burst.fail(tup, "it is planned")
            case "refuse":
                raise FailTuple("it is planned")
            case "raise":
                raise ValueError("it is planned")
            case "twice" if self.settles:
                burst.ack(tup)
                burst.fail(tup)


class SettlingMany(Many):
    """Acks some tuples itself. After an error the others may send twice."""

    settles = True


class AsyncMany(Many):
    """Awaits within a burst."""

    async def execute_many(self, burst: Burst) -> None:
        for at in range(len(burst)):
            self.act(burst, at)
            if burst[at]["label"] % 4 == 0:
                await asyncio.sleep(0.001)


BOLTS: Final[dict[Kind, type[Bolt] | type[BurstBolt]]] = {
    "plain": Single,
    "async": AsyncSingle,
    "burst": Many,
    "settling burst": SettlingMany,
    "async burst": AsyncMany,
}
