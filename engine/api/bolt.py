"""`Bolt` and `BasicBolt` are the base classes of all bolts."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import ClassVar, Literal, Protocol, TypeAlias

from engine.api.collector import BasicCollector, BoltCollector, Tuple
from engine.api.context import TaskContext
from engine.api.fields import OutputFields, Values

OnBoltError: TypeAlias = Literal["fail", "restart", "stop", "divert"]
"""Reaction to an exception of a bolt. "divert": the instance continues, and the input leaves on the stream `failed` (SV-14)."""


class FailTuple(Exception):
    """Raised by a `BasicBolt` to fail its input without an error report (ACK-11).

    The text of the exception becomes `Failure.error`. With `report=True` the engine also reports the exception as an error.

    >>> from engine import FailTuple, TopologyBuilder, bolt
    >>> from engine.testing import Feeder, run_topology
    >>> @bolt()
    ... def check(tup):
    ...     if not tup["text"].isdigit():
    ...         raise FailTuple("not a number")
    >>> texts = Feeder("text")
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("texts", texts)
    >>> _ = builder.set_bolt("check", check).shuffle_grouping("texts")
    >>> _ = texts.feed(("two",))
    >>> texts.close()
    >>> errors = run_topology(builder.build()).errors
    >>> texts.failed[0][1].describe(), errors
    ("'check' (task 2) failed it: not a number", ())
    """

    def __init__(self, *args: object, report: bool = False) -> None:
        super().__init__(*args)
        self.report = report


class BoltBase(ABC):
    """Defines the settings, the context, `prepare` and `cleanup`, which `Bolt` and `BasicBolt` share."""

    output_fields: OutputFields = None
    """Field names of the default stream, or a mapping from stream names to fields. None: the bolt emits nothing."""
    concurrency: int = 1
    """Number of inputs that an `async def execute` processes at the same time. 1: one input after the other, in order."""
    on_error: OnBoltError | None = None
    """Reaction to an exception of this bolt. None: `Config.on_error`, "fail" by default.

    "divert": an input that has failed for good leaves on the stream `failed`, and counts as processed (SV-14)."""
    retries: int = 0
    """Number of times that a call that raised runs again, before its input fails (SV-13)."""
    tick_tuple_freq_secs: float | None = None
    """Seconds between ticks, at least 0.001. `execute` gets each tick as a tuple with `tup.is_tick`. None: no ticks."""

    processes: bool = False
    """True: the instance of each task lives in a process of its own, so the tasks use all cores (PR-1)."""

    survives_rollback: ClassVar[bool] = False
    """True promises that the instance keeps no rows, so that it can stay when a run with state goes back to its last commit (EO-5).

    Otherwise each instance is made anew, because it might have rows of the dropped interval in its attributes. A class with an expensive
    `prepare`, which loads a model for example, can instead define a method `pre_rollback` that forgets the rows. Then it stays, too.
    """

    context: TaskContext
    """Gives access to the ids of this task, the settings, the metrics, and other services of the engine. Set before `prepare`."""

    def prepare(self) -> Awaitable[None] | None:
        """Open the resources of this task. Called first, before any spout opens."""
        return None

    def cleanup(self) -> Awaitable[None] | None:
        """Release the resources of `prepare`. Called last, but not if `prepare` raised."""
        return None


class Bolt(BoltBase):
    """Base class of bolts that anchor and settle tuples explicitly.

    The bolt must call `self.collector.ack(tup)` or `self.collector.fail(tup)` for each input, in `execute` or later. If the bolt drops an
    input without either call, the input fails at once (ACK-15).

    Settings are class attributes, or keywords of `set_bolt`: `concurrency`, `on_error`, `processes`, `retries`,
    `tick_tuple_freq_secs`.

    >>> from engine import Bolt, TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> class Pair(Bolt):
    ...     output_fields = "pair"
    ...     def prepare(self):
    ...         self.waiting = []
    ...     def execute(self, tup):
    ...         self.waiting.append(tup)
    ...         if len(self.waiting) == 2:
    ...             self.collector.emit(([each["word"] for each in self.waiting],), anchors=self.waiting)
    ...             for each in self.waiting:
    ...                 self.collector.ack(each)
    ...             self.waiting = []
    >>> words, pairs = Feeder("word"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("words", words)
    >>> _ = builder.set_bolt("pair", Pair).shuffle_grouping("words")
    >>> _ = builder.set_bolt("pairs", pairs).shuffle_grouping("pair")
    >>> _ = words.feed(("to",)), words.feed(("be",))
    >>> words.close()
    >>> _ = run_topology(builder.build())
    >>> pairs.values, words.acked
    ([(['to', 'be'],)], [1, 2])
    """

    collector: BoltCollector
    """Emits tuples and settles inputs. Set before `prepare`."""

    @abstractmethod
    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one input.

        An exception fails the input. `on_error` decides whether the engine also restarts the instance or ends the run.
        """


BasicResult: TypeAlias = Values | Iterable[Values] | AsyncIterable[Values] | Awaitable[tuple[object, ...] | None] | None
"""Result of `BasicBolt.execute`."""


class BasicBolt(BoltBase):
    """Base class of bolts with automatic anchoring and acking (ACK-11).

    The engine anchors each emitted tuple to the current input. The engine acks the input when `execute` returns.

    Settings are class attributes, or keywords of `set_bolt`: `concurrency`, `threads`, `processes`, `on_error`,
    `retries`, `tick_tuple_freq_secs`.

    >>> from engine import BasicBolt, TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> class Split(BasicBolt):
    ...     output_fields = "word"
    ...     def execute(self, tup):
    ...         for word in tup["line"].split():
    ...             yield (word,)
    >>> lines, words = Feeder("line"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", lines)
    >>> _ = builder.set_bolt("split", Split).shuffle_grouping("lines")
    >>> _ = builder.set_bolt("words", words).shuffle_grouping("split")
    >>> _ = lines.feed(("to be",))
    >>> lines.close()
    >>> _ = run_topology(builder.build())
    >>> words.values, lines.acked
    ([('to',), ('be',)], [1])
    """

    threads: int = 0
    """Size of the thread pool that runs a blocking `def execute` (ACK-10). 0: `execute` runs on the event loop."""

    collector: BasicCollector
    """Emits tuples to other streams than the default one. Set before `prepare`."""

    @abstractmethod
    def execute(self, tup: Tuple) -> BasicResult:
        """Process one input. The method may be a plain function, a generator, a coroutine function or an async generator.

        The engine emits each value tuple that a generator yields, on the default stream. A function may return one value tuple, or None.
        The engine raises UsageError for any other result. For other streams call `self.collector.emit(values, stream)`. An exception fails
        the input.
        """


class CreatesBolt(Protocol):
    """Object whose `create()` makes a bolt, such as the result of `@bolt`."""

    def create(self) -> BoltBase:
        """Return a new bolt."""


BoltFactory: TypeAlias = CreatesBolt | Callable[[], BoltBase | CreatesBolt]
"""Factory of bolts: a class, a callable without arguments, or the result of `@bolt`. The engine calls the factory for each instance."""
