"""Streams of typed rows: what a user calls between a source and a sink. Each method adds a node to the graph of the flow."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, NoReturn, TypeGuard, TypeVar, Union, Unpack, overload

from engine.api import BoltFactory
from engine.api.arguments import checked_count
from engine.errors import UsageError
from engine.event_time import EventTime
from engine.streams.aggregates import Acc, Aggregate, Collect, Count, Custom, Max, MaxBy, Mean, Min, Reduce, ReductionPlan, Sum
from engine.streams.arguments import (
    RowCall,
    Selected,
    SinkOptions,
    StageOptions,
    TimeSettings,
    UpdatesReplaceEarlierOnes,
    getter,
    is_function,
    item_type,
    returned,
)
from engine.streams.bolt_nodes import AsyncNode, FinalsNode, RevisedWindowNode, RunningNode, SinkNode, ThroughNode, WindowNode, read_fields
from engine.streams.calls import Call, checked_call
from engine.streams.graph import FAILED, LATE, BranchNode, EventTimeNode, Layout, MergeNode, Port, SelectNode, StepNode, revises
from engine.streams.put import Put, PutStep
from engine.streams.rows import KEY, ROW, TIME, Failed, Keyed, Revised
from engine.streams.steps import FilterStep, FlatMapStep, KeyStep, MapStep, SelectStep, Step
from engine.streams.times import to_duration_micros
from engine.streams.tops import Top, no_key, windows_of_results, with_own_window
from engine.streams.window_bolt import WindowSpec
from engine.streams.windows import Calendar, Late, Session, Sliding, Updates, Windowed
from engine.transactional.values import ReduceInto

R_co = TypeVar("R_co", covariant=True)
In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
K = TypeVar("K")
N = TypeVar("N")


class Stream(Generic[R_co]):
    """Rows of one type on their way through a flow. Immutable: each method returns a new stream."""

    __slots__ = ("_port", "_type")

    def __init__(self, port: Port, row_type: Any = None) -> None:
        """Streams come from `Flow.stream` and from the methods of other streams. row_type: None if it is unknown."""
        self._port = port
        self._type = row_type

    def map(
        self, function: Callable[[R_co], T] | type[RowCall[R_co, T]], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "Stage[R_co, T]":
        """Replace each row by the result of a function."""
        call = checked_call("map", function)
        return self._step(MapStep, "map", call, name, options, returned(call))

    def filter(
        self, predicate: Callable[[R_co], object] | type[RowCall[R_co, object]], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "Stage[R_co, R_co]":
        """Keep the rows for which a function is true."""
        return self._step(FilterStep, "filter", checked_call("filter", predicate), name, options, self._type)

    def flat_map(
        self,
        function: Callable[[R_co], Iterable[T]] | type[RowCall[R_co, Iterable[T]]],
        *,
        name: str | None = None,
        **options: Unpack[StageOptions],
    ) -> "Stage[R_co, T]":
        """Replace each row by the rows that a function returns or yields."""
        call = checked_call("flat_map", function)
        return self._step(FlatMapStep, "flat_map", call, name, options, item_type(returned(call)))

    def map_async(
        self,
        function: Callable[[R_co], Awaitable[T]] | type[RowCall[R_co, Awaitable[T]]],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        name: str | None = None,
        **options: Unpack[StageOptions],
    ) -> "Stage[R_co, T]":
        """Replace each row by the awaited result of an `async def`, for many rows at the same time.

        concurrency: number of calls that each task awaits at once. ordered: emit the results in the order of the rows. False is faster if
        some calls take much longer than others.
        """
        call = checked_call("map_async", function, takes_async=True)
        if not call.kind.is_async:
            raise UsageError(f"map_async(): {call.name} is no async def", hint="Use map(), with threads=... if it blocks.")
        settings = {**options, "concurrency": checked_count("concurrency", concurrency, 1)}
        node = AsyncNode(**self._of(name, settings), call=call, is_ordered=ordered, row_type=returned(call))
        return Stage(Port(node), node.row_type)

    @overload
    def branch(self, predicate: Callable[[R_co], TypeGuard[T]], /, *, name: str | None = None) -> "tuple[Stream[T], Stream[R_co]]": ...
    @overload
    def branch(self, predicate: Callable[[R_co], object], /, *, name: str | None = None) -> "tuple[Stream[R_co], Stream[R_co]]": ...
    @overload
    def branch(
        self, first: Callable[[R_co], TypeGuard[T]], second: Callable[[R_co], object], /, *, name: str | None = None
    ) -> "tuple[Stream[T], Stream[R_co], Stream[R_co]]": ...
    @overload
    def branch(
        self, first: Callable[[R_co], object], second: Callable[[R_co], object], /, *, name: str | None = None
    ) -> "tuple[Stream[R_co], Stream[R_co], Stream[R_co]]": ...
    @overload
    def branch(self, *predicates: Callable[[R_co], object], name: str | None = None) -> "tuple[Stream[R_co], ...]": ...

    def branch(self, *predicates: Callable[[Any], object], name: str | None = None) -> "tuple[Stream[Any], ...]":
        """Divide the stream. Each row goes to the first predicate that is true, and to the last stream if none is."""
        if not predicates:
            raise UsageError("branch() has no predicate", hint="Write ok, other = stream.branch(lambda row: ...).")
        calls = tuple(checked_call("branch", predicate) for predicate in predicates)
        node = BranchNode(**self._of(name, {}), calls=calls, row_type=self._type)
        return tuple(Stream(Port(node, str(number)), self._type) for number in range(len(calls) + 1))

    def event_time(self, time: str | Callable[[R_co], Any], /, **settings: Unpack[TimeSettings]) -> "Stream[R_co]":
        """Give each row its time, so that windows can follow. It stands on a source, or behind `map`, `filter` and `flat_map` on it.

        time: name of a field, or a function of a row. A time is an aware datetime, an int (milliseconds) or a float (seconds); `unit` says
        another unit. A row may come `max_out_of_order` later than a row with a greater time, and still be on time. `EventTime` describes
        the other settings.
        """
        call = Call(getter("event_time()", time, self._type)) if isinstance(time, str) else checked_call("event_time", time)
        node = EventTimeNode(**self._of(None, {}), settings=EventTime(time, **settings), time=call, row_type=self._type)
        return Stream(Port(node), self._type)

    @overload
    def key_by(self, key: str, /) -> "KeyedStream[Any, R_co]": ...
    @overload
    def key_by(self, key: Callable[[R_co], K], /) -> "KeyedStream[K, R_co]": ...

    def key_by(self, key: str | Callable[[Any], Any], /) -> "KeyedStream[Any, R_co]":
        """Give each row a key: the value of a field, or of a function. All rows of a key go to the same task.

        A key is None, bool, int, float, str, bytes, datetime, Decimal, UUID, or a tuple of these. A row with another key fails.
        """
        call = Call(getter("key_by()", key, self._type)) if isinstance(key, str) else checked_call("key_by", key)
        title = f"key_by-{key if isinstance(key, str) else call.name}"
        node = StepNode(**self._of(None, {}), step=KeyStep, call=call, title=title, row_type=self._type)
        return KeyedStream(Port(node), self._type)

    def through(
        self, bolt: BoltFactory, row_type: type[T], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "Stage[R_co, T]":
        """Send the rows through a bolt of your own, as the field `row`. Its tuples become rows of a type, by the names of their fields."""
        node = ThroughNode(**self._of(name, options), given=bolt, row_type=row_type)
        return Stage(Port(node), row_type)

    @overload
    def sink(
        self, name: str, target: Callable[[R_co], object] | type[RowCall[R_co, object]] | Put[R_co], **options: Unpack[SinkOptions]
    ) -> "Sink[R_co]": ...
    @overload
    def sink(
        self,
        name: str,
        target: BoltFactory,
        *,
        fields: Mapping[str, Callable[[R_co], object]] | None = None,
        **options: Unpack[SinkOptions],
    ) -> "Sink[R_co]": ...

    def sink(
        self, name: str, target: Any, *, fields: Mapping[str, Callable[[Any], object]] | None = None, **options: Unpack[SinkOptions]
    ) -> "Sink[Any]":
        """End the stream: call a function or an object of a class with each row, or hand the rows to a bolt or a committer.

        A committer gets the fields that it names, which it reads from the row. Another bolt gets the field `row`. fields: functions of
        a row by the name of the field that the bolt reads instead, such as `{"value": lambda row: row.page}` for a Kafka sink.
        """
        made: Any = checked_call("sink", target, takes_async=True) if is_function(target) else target
        if isinstance(made, Put):
            fields = {"key": made.key, "value": made.value}
        if isinstance(made, ReduceInto) and revises(self._port):
            hint = "Write to a sink that sets values, such as Put."
            raise UsageError(f"sink {name!r}: ReduceInto would add an update to what the update replaces", hint=hint)
        if isinstance(made, Call) and fields is not None:
            raise UsageError(f"sink {name!r}: a function takes the row, so it has no fields", hint="Leave fields out.")
        port = self._port
        if not isinstance(made, Call):
            port = self._selected(name, made, fields)
        node = SinkNode(graph=self._port.node.graph, inputs=(port,), name=name, options=options, target=made, row_type=self._type)
        return Sink(Port(node), has_rows=port is self._port)

    # Nodes

    def _selected(self, name: str, target: Any, fields: Mapping[str, Callable[[Any], object]] | None) -> Port:
        """Return the port with the fields that a bolt reads: those that the user gives, else those that a committer names."""
        if fields is not None:
            calls = [checked_call("sink", function).given for function in fields.values()]
            names = tuple(fields)
        else:
            names = read_fields(name, target)
            if not names:
                return self._port
            calls = [getter(f"sink {name!r}", each, self._type) for each in names]
        call = Call(Selected(tuple(calls)))
        step = PutStep if isinstance(target, Put) and revises(self._port) else SelectStep
        node = SelectNode(**self._of(None, {}), step=step, call=call, title=f"fields-of-{name}", fields=names)
        return Port(node)

    def _of(self, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"graph": self._port.node.graph, "inputs": (self._port,), "name": name, "options": options}

    def _step(
        self, step: type[Step], method: str, call: Call, name: str | None, options: Mapping[str, Any], row_type: Any
    ) -> "Stage[Any, Any]":
        node = StepNode(**self._of(name, options), step=step, call=call, title=f"{method}-{call.name}", row_type=row_type)
        return Stage(Port(node), row_type)


class Stage(Stream[Out], Generic[In, Out]):
    """The results of a stage, and the rows that it could not process."""

    __slots__ = ()

    @property
    def failed(self) -> Stream[Failed[In]]:
        """The rows that have failed for good. The stage has `on_error="divert"`."""
        return Stream(failed_port(self._port), Failed)


class Sink(Generic[In]):
    """A sink of a flow."""

    __slots__ = ("_has_rows", "_port")

    def __init__(self, port: Port, *, has_rows: bool) -> None:
        """Sinks come from `Stream.sink`. has_rows: its bolt reads rows, not their fields."""
        self._port = port
        self._has_rows = has_rows

    @property
    def failed(self) -> Stream[Failed[In]]:
        """The rows that have failed for good. The sink has `on_error="divert"`, and reads whole rows."""
        if not self._has_rows:
            text = f"sink {self._port.node.name!r} reads fields, so a row that it diverts is none any more"
            raise UsageError(text, hint="Check the rows in a map(..., on_error='divert') in front of it.")
        return Stream(failed_port(self._port), Failed)


class KeyedStream(Generic[K, R_co]):
    """Rows with a key. All rows of a key go to the same task of the next stage, in order."""

    __slots__ = ("_port", "_type")

    def __init__(self, port: Port, row_type: Any) -> None:
        """Keyed streams come from `Stream.key_by`."""
        self._port = port
        self._type = row_type

    @overload
    def window(self, spec: Sliding | Calendar | Session, /) -> "WindowedStream[K, R_co]": ...
    @overload
    def window(
        self, spec: Sliding | Calendar | Session, /, *, allowed_lateness: timedelta, early: bool = False
    ) -> "RevisedWindowedStream[K, R_co]": ...
    @overload
    def window(self, spec: Sliding | Calendar | Session, /, *, early: bool) -> "RevisedWindowedStream[K, R_co]": ...

    def window(
        self, spec: Sliding | Calendar | Session, /, *, allowed_lateness: timedelta | None = None, early: bool = False
    ) -> "WindowedStream[K, R_co] | RevisedWindowedStream[K, R_co]":
        """Divide the rows of each key into windows: `tumbling`, `sliding`, `session` or `calendar`. The rows have event times.

        allowed_lateness: keep a closed window for this time, so that late rows give updates of its result. early: give results of open
        windows, too. With either of them each result is a `Revised`, which replaces the one before it.
        """
        refuse_revisions("window", self._port)
        if type(early) is not bool:
            raise UsageError(f"early={early!r} is not a bool", hint="Write early=True.")
        if allowed_lateness is None and not early:
            return in_windows(self._port, self._type, spec)
        allowed_us = 0 if allowed_lateness is None else to_duration_micros(allowed_lateness, "allowed_lateness", least=0)
        return RevisedWindowedStream(in_windows(self._port, self._type, spec, Updates(allowed_us, early)))

    def count(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> "RevisedStage[R_co, Keyed[K, int]]":
        """Count the rows of each key. Each row gives the next revision of its key's count, from 1 on."""
        return self._running(ReductionPlan(Count, None), name, options)

    def reduce(
        self, function: Callable[[R_co, R_co], R_co], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, R_co]]":
        """Reduce the rows of each key to one, with an associative function of two rows."""
        return self._running(ReductionPlan(Reduce, checked_call("reduce", function, arguments=2), self._type), name, options)

    def sum(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, N]]":
        """Add up a number of each row."""
        return self._running(ReductionPlan(Sum, checked_call("sum", of)), name, options)

    def mean(
        self, of: Callable[[R_co], float], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, float]]":
        """Return the mean of a number of each row."""
        return self._running(ReductionPlan(Mean, checked_call("mean", of)), name, options)

    def min(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, N]]":
        """Return the least value of the rows."""
        return self._running(ReductionPlan(Min, checked_call("min", of)), name, options)

    def max(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, N]]":
        """Return the greatest value of the rows."""
        return self._running(ReductionPlan(Max, checked_call("max", of)), name, options)

    def max_by(
        self, of: Callable[[R_co], object], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedStage[R_co, Keyed[K, R_co]]":
        """Return the row with the greatest value. Of equal ones it is the first."""
        return self._running(ReductionPlan(MaxBy, checked_call("max_by", of), self._type), name, options)

    def collect(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> "RevisedStage[R_co, Keyed[K, list[R_co]]]":
        """Collect the rows of each key in a list, which grows with every row."""
        return self._running(ReductionPlan(Collect, None, self._type), name, options)

    def through(
        self, bolt: BoltFactory, row_type: type[T], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "Stage[R_co, T]":
        """Send the rows through a bolt of your own, as the fields `row` and `key`, grouped by the key. See `Stream.through`."""
        return Stream[R_co](self._port, self._type).through(bolt, row_type, name=name, **options)

    @overload
    def sink(
        self, name: str, target: Callable[[R_co], object] | type[RowCall[R_co, object]] | Put[R_co], **options: Unpack[SinkOptions]
    ) -> "Sink[R_co]": ...
    @overload
    def sink(
        self,
        name: str,
        target: BoltFactory,
        *,
        fields: Mapping[str, Callable[[R_co], object]] | None = None,
        **options: Unpack[SinkOptions],
    ) -> "Sink[R_co]": ...

    def sink(
        self, name: str, target: Any, *, fields: Mapping[str, Callable[[Any], object]] | None = None, **options: Unpack[SinkOptions]
    ) -> "Sink[Any]":
        """End the stream. All rows of a key go to the same task. See `Stream.sink`."""
        return Stream[R_co](self._port, self._type).sink(name, target, fields=fields, **options)

    def _running(self, reduction: ReductionPlan, name: str | None, options: Mapping[str, Any]) -> "RevisedStage[Any, Any]":
        method = reduction.kind.kind
        refuse_revisions(method, self._port)
        if options.get("threads"):
            raise UsageError(f"{method}() has a state, so it takes one burst at a time", hint="Leave threads out.")
        node = RunningNode(
            graph=self._port.node.graph, inputs=(self._port,), name=name, options=options, reduction=reduction, row_type=Revised
        )
        return RevisedStage(Port(node), Revised)


class WindowedStage(Stage[In, Out], Generic[In, Out]):
    """The results of windows, and the rows that came too late or could not be processed."""

    __slots__ = ()

    @property
    def late(self) -> Stream[Late[In]]:
        """The rows that came when all their windows were closed. They are counted and acked, also if nobody reads them."""
        return Stream(Port(self._port.node, LATE), Late)

    def top(
        self, most: int, *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "Stage[Windowed[None, list[Out]], Windowed[None, list[Out]]]":
        """Return the results with the greatest values in each window, over all keys, as one row for each window. Its key is None."""
        node = self._port.node
        assert isinstance(node, WindowNode)
        if options.get("on_error") == "divert":
            raise UsageError("top() gets results, which cannot be diverted", hint="Leave on_error out.")
        if node.reduction.kind.keeps_rows:
            text = f"top() compares the values of results, and {node.reduction.kind.kind}() gives rows"
            raise UsageError(text, hint="Use count(), sum(), mean(), min() or max(), or an aggregate whose result is a number.")
        windows: WindowedStream[None, Any] = self.key_by(no_key).window(windows_of_results(node.spec))
        results: Stage[Any, Any] = windows.aggregate(Top(checked_count("top", most, 1)), name=name, **options)
        own_window: Any = with_own_window
        return results.map(own_window)


class WindowedStream(Generic[K, R_co]):
    """Keyed rows in windows. Each method gives one result for each key in each window, when the watermark closes it."""

    __slots__ = ("_port", "_spec", "_type", "_updates")

    def __init__(self, port: Port, row_type: Any, spec: WindowSpec, updates: Updates | None = None) -> None:
        """Windowed streams come from `KeyedStream.window`."""
        self._port, self._type, self._spec, self._updates = port, row_type, spec, updates

    def count(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> WindowedStage[R_co, Windowed[K, int]]:
        """Count the rows."""
        return self._stage(ReductionPlan(Count, None), name, options)

    def aggregate(
        self, aggregate: Aggregate[R_co, Acc, Out], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, Out]]:
        """Aggregate the rows by an object of your own with `initial`, `add`, `merge` and `result`."""
        if not isinstance(aggregate, Aggregate):
            raise UsageError(f"aggregate() takes an Aggregate, not {aggregate!r}", hint="Derive its class from engine.streams.Aggregate.")
        missing = [name for name in ("initial", "add", "merge", "result") if getattr(type(aggregate), name) is getattr(Aggregate, name)]
        if missing:
            raise UsageError(f"the aggregate {type(aggregate).__name__} has no {missing[0]}()", hint="Write all four methods.")
        return self._stage(ReductionPlan(Custom, Call(aggregate)), name, options)

    def reduce(
        self, function: Callable[[R_co, R_co], R_co], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, R_co]]:
        """Reduce the rows to one, with an associative function of two rows."""
        return self._stage(ReductionPlan(Reduce, checked_call("reduce", function, arguments=2), self._type), name, options)

    def sum(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, N]]:
        """Add up a number of each row."""
        return self._stage(ReductionPlan(Sum, checked_call("sum", of)), name, options)

    def mean(
        self, of: Callable[[R_co], float], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, float]]:
        """Return the mean of a number of each row."""
        return self._stage(ReductionPlan(Mean, checked_call("mean", of)), name, options)

    def min(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, N]]:
        """Return the least value of the rows."""
        return self._stage(ReductionPlan(Min, checked_call("min", of)), name, options)

    def max(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, N]]:
        """Return the greatest value of the rows."""
        return self._stage(ReductionPlan(Max, checked_call("max", of)), name, options)

    def max_by(
        self, of: Callable[[R_co], object], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> WindowedStage[R_co, Windowed[K, R_co]]:
        """Return the row with the greatest value. Of equal ones it is the first."""
        return self._stage(ReductionPlan(MaxBy, checked_call("max_by", of), self._type), name, options)

    def collect(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> WindowedStage[R_co, Windowed[K, list[R_co]]]:
        """Collect the rows in a list."""
        return self._stage(ReductionPlan(Collect, None, self._type), name, options)

    def _stage(self, reduction: ReductionPlan, name: str | None, options: Mapping[str, Any]) -> WindowedStage[Any, Any]:
        for option in ("threads", "processes"):
            if options.get(option):
                text = f"{reduction.kind.kind}() in windows acts on watermarks, which reach only a bolt on the event loop"
                raise UsageError(f"{text}, so it takes no {option}", hint=f"Leave {option} out, and raise the parallelism.")
        kind, row_type = (WindowNode, Windowed) if self._updates is None else (RevisedWindowNode, Revised)
        node = kind(
            graph=self._port.node.graph,
            inputs=(self._port,),
            name=name,
            options=options,
            spec=self._spec,
            reduction=reduction,
            updates=self._updates,
            row_type=row_type,
        )
        return WindowedStage(Port(node), row_type)


class RevisedWindowedStream(Generic[K, R_co]):
    """Keyed rows in windows that give several results of a key: early ones, the final one, and updates by late rows."""

    __slots__ = ("_windows",)

    def __init__(self, windows: WindowedStream[K, R_co]) -> None:
        """Such streams come from `KeyedStream.window` with `allowed_lateness` or `early`."""
        self._windows = windows

    def count(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> "RevisedWindowedStage[R_co, Windowed[K, int]]":
        """Count the rows."""
        return _revised(self._windows.count(name=name, **options))

    def aggregate(
        self, aggregate: Aggregate[R_co, Acc, Out], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, Out]]":
        """Aggregate the rows by an object of your own with `initial`, `add`, `merge` and `result`."""
        return _revised(self._windows.aggregate(aggregate, name=name, **options))

    def reduce(
        self, function: Callable[[R_co, R_co], R_co], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, R_co]]":
        """Reduce the rows to one, with an associative function of two rows."""
        return _revised(self._windows.reduce(function, name=name, **options))

    def sum(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, N]]":
        """Add up a number of each row."""
        return _revised(self._windows.sum(of, name=name, **options))

    def mean(
        self, of: Callable[[R_co], float], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, float]]":
        """Return the mean of a number of each row."""
        return _revised(self._windows.mean(of, name=name, **options))

    def min(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, N]]":
        """Return the least value of the rows."""
        return _revised(self._windows.min(of, name=name, **options))

    def max(
        self, of: Callable[[R_co], N], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, N]]":
        """Return the greatest value of the rows."""
        return _revised(self._windows.max(of, name=name, **options))

    def max_by(
        self, of: Callable[[R_co], object], *, name: str | None = None, **options: Unpack[StageOptions]
    ) -> "RevisedWindowedStage[R_co, Windowed[K, R_co]]":
        """Return the row with the greatest value. Of equal ones it is the first."""
        return _revised(self._windows.max_by(of, name=name, **options))

    def collect(self, *, name: str | None = None, **options: Unpack[StageOptions]) -> "RevisedWindowedStage[R_co, Windowed[K, list[R_co]]]":
        """Collect the rows in a list."""
        return _revised(self._windows.collect(name=name, **options))


class RevisedStream(Stream[Revised[Out]]):
    """Results that replace earlier ones of the same key. Sinks that set values take them; they are not counted or reduced again."""

    __slots__ = ()

    def key_by(self, key: UpdatesReplaceEarlierOnes, /) -> NoReturn:  # type: ignore[override]
        """Refuse the call: a further reduction would add an update to what the update replaces."""
        raise UsageError("key_by() got a stream of updates, and each one replaces an earlier one", hint="Count or reduce it before.")


class RevisedStage(RevisedStream[Out], Generic[In, Out]):
    """The updates of a stage, and the rows that it could not process."""

    __slots__ = ()

    @property
    def failed(self) -> Stream[Failed[In]]:
        """The rows that have failed for good. The stage has `on_error="divert"`."""
        return Stream(failed_port(self._port), Failed)


class RevisedWindowedStage(RevisedStage[In, Out], Generic[In, Out]):
    """The updates of windows, and the rows that came too late or could not be processed."""

    __slots__ = ()

    @property
    def late(self) -> Stream[Late[In]]:
        """The rows that came when all their windows were closed for good. They are counted and acked, also if nobody reads them."""
        return Stream(Port(self._port.node, LATE), Late)

    def finals(self) -> Stream[Out]:
        """Return the final result of each key in each window, without early results and updates."""
        call = Call(final_values)
        node = FinalsNode(**self._of(None, {}), step=FlatMapStep, call=call, title="finals", row_type=Windowed)
        return Stream(Port(node), Windowed)


def _revised(stage: WindowedStage[Any, Any]) -> RevisedWindowedStage[Any, Any]:
    return RevisedWindowedStage(stage._port, Revised)


def final_values(row: Revised[Any]) -> list[Any]:
    """Return the value of a final result, and nothing for another one."""
    return [row.value] if row.kind == "final" else []


def merge(*streams: Stream[T]) -> Stream[T]:
    """Return the rows of several streams of one flow, as they come."""
    if not streams:
        raise UsageError("merge() has no streams", hint="Write merge(first, second).")
    for stream in streams:
        if not isinstance(stream, Stream):
            raise UsageError(f"merge() takes streams, not {stream!r}", hint="Write merge(first, second).")
    if len(streams) == 1:
        return streams[0]
    ports = tuple(stream._port for stream in streams)
    types = [stream._type for stream in streams]
    row_type = None if None in types else Union[tuple(types)]  # noqa: UP007 - of one type it is the type itself
    return Stream(Port(MergeNode(graph=ports[0].node.graph, inputs=ports, row_type=row_type)), row_type)


def in_windows(port: Port, row_type: Any, spec: Any, updates: Updates | None = None) -> WindowedStream[Any, Any]:
    """Return the windows over a stream. Raise UsageError if its rows have no time, or the windows are none."""
    if not isinstance(spec, WindowSpec):
        hint = "Write tumbling(minutes(1)), sliding(minutes(5), every=seconds(30)), session(gap=minutes(30)) or calendar('day', tz=...)."
        raise UsageError(f"window() takes windows, not {spec!r}", hint=hint)
    layout = layout_of(port)
    if TIME not in layout or KEY not in layout:
        text = "window() got rows without event times, so nobody could say when a window is complete"
        raise UsageError(text, hint="Write flow.stream(...).event_time('at', max_out_of_order=seconds(10)).key_by(...).window(...).")
    return WindowedStream(port, row_type, spec, updates)


def layout_of(port: Port) -> Layout:
    """Return the fields of a port."""
    if port.name == FAILED:
        return (ROW,)
    return port.node.port_layout(port.name, [layout_of(each) for each in port.node.inputs])


def failed_port(port: Port) -> Port:
    """Return the port of the diverted rows of a stage. Raise UsageError if it diverts none."""
    if not port.node.diverts:
        name = port.node.name or port.node.default_name
        raise UsageError(f"stage {name!r} diverts no rows", hint='Give it on_error="divert".')
    return Port(port.node, FAILED)


def refuse_revisions(method: str, port: Port) -> None:
    """Raise UsageError if rows of a port replace earlier ones."""
    if revises(port):
        text = f"{method}() got a stream of updates, of which each replaces an earlier one, so it would count them all"
        raise UsageError(text, hint="Count or reduce the rows before the first running count.")
