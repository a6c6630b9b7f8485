"""Collects the settings of one component, and checks their names and values."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from engine.api.arguments import CallKind, call_kind, count_from, number_within
from engine.api.bolt import BasicBolt, BoltBase, OnBoltError
from engine.api.burst_bolt import BurstBolt
from engine.api.spout import BurstSpout, MaxSpoutPending, OnError
from engine.event_time import EventTime
from engine.names import did_you_mean
from engine.topology.factory import FactoryFault, read_attribute
from engine.topology.spec import ComponentSettings, Kind


class SpoutSettings(TypedDict, total=False):
    """Settings of `set_spout`, for type checkers. None keeps the value of the class attribute."""

    max_spout_pending: MaxSpoutPending
    """Limit of open trees per task: a number of at least 1, or "auto"."""
    on_error: OnError | None
    """Reaction to an exception of the spout."""
    event_time: EventTime | None
    """Where the rows have their times, and how far the watermark stays behind them."""


class BoltSettings(TypedDict, total=False):
    """Settings of `set_bolt`, for type checkers. None keeps the value of the class attribute."""

    concurrency: int | None
    """Number of inputs that an `async def execute` processes at the same time."""
    threads: int | None
    """Size of the thread pool that runs a blocking `def execute` of a BasicBolt."""
    on_error: OnBoltError | None
    """Reaction to an exception of the bolt."""
    retries: int | None
    """Number of times that a call that raised runs again, before its input fails."""
    tick_tuple_freq_secs: float | None
    """Seconds between ticks, at least 0.001."""
    processes: bool | None
    """True: each task has its instance in a process of its own."""


@dataclass(frozen=True, slots=True)
class _Setting:
    read: Callable[[Any], Any]
    """Returns a value as it is stored, and None for a wrong one."""
    expected: str


def _count(minimum: int) -> _Setting:
    return _Setting(lambda value: count_from(value, minimum), f"an integer of at least {minimum}")


def _at_most(bound: int, value: int | None) -> int | None:
    return None if value is None or value > bound else value


def _one_of(*values: object) -> Callable[[Any], Any]:
    return lambda value: value if value in values else None


DIVERT: Final = "divert"
"""Value of `on_error` of a bolt."""
LEAST_TICK_SECS: Final = 0.001
MOST_RETRIES: Final = 2**16 - 1
"""The compiled tuple counts its failed calls in 16 bits."""
_ON_ERROR: Final = _Setting(_one_of("fail", "restart", "stop"), "'fail', 'restart' or 'stop'")
_PENDING: Final = _Setting(lambda value: _one_of("auto")(value) or count_from(value, 1), "an integer of at least 1, or 'auto'")
_ON_BOLT_ERROR: Final = _Setting(_one_of("fail", "restart", "stop", DIVERT), "'fail', 'restart', 'stop' or 'divert'")
_EVENT_TIME: Final = _Setting(
    lambda value: value if isinstance(value, EventTime) else None, "an EventTime, such as EventTime('at', max_out_of_order=seconds(10))"
)
_SPOUT_SETTINGS: Final = {"max_spout_pending": _PENDING, "on_error": _ON_ERROR, "event_time": _EVENT_TIME}
_TICK_SECS: Final = _Setting(
    lambda value: number_within(value, LEAST_TICK_SECS, sys.float_info.max), f"a number of seconds of at least {LEAST_TICK_SECS:g}"
)
_BOLT_SETTINGS: Final = {
    "concurrency": _count(1),
    "threads": _count(0),
    "on_error": _ON_BOLT_ERROR,
    "retries": _Setting(lambda value: _at_most(MOST_RETRIES, count_from(value, 0)), f"an integer from 0 to {MOST_RETRIES:,}"),
    "tick_tuple_freq_secs": _TICK_SECS,
    "processes": _Setting(lambda value: value if isinstance(value, bool) else None, "True or False"),
}
SETTINGS_OF_KIND: Final[Mapping[Kind, Mapping[str, Any]]] = {"spout": _SPOUT_SETTINGS, "bolt": _BOLT_SETTINGS}


def collect_settings(kind: Kind, where: str, declared: object, keywords: Mapping[str, object]) -> tuple[ComponentSettings, list[str]]:
    """Return the settings of a component, and their faults. A setting with a wrong value gets its default.

    `declared` is the class of the component or an instance, or None if neither is known. A keyword that is not None overrides the
    attribute. `where` is the beginning of each fault: `bolt 'count'`.
    """
    settings: Mapping[str, _Setting] = SETTINGS_OF_KIND[kind]
    faults = [
        f"{where}: {name!r} is not a setting of a {kind}. {_other_kind(kind, name) or did_you_mean(name, settings)}"
        for name in keywords
        if name not in settings
    ]
    chosen: dict[str, Any] = {}
    for name, setting in settings.items():
        value, fix = keywords.get(name), f"set_{kind}(..., {name}=...)"
        if value is None:
            fix = f"{_class_name(declared)}.{name}"
            try:
                value = read_attribute(declared, name)
            except FactoryFault as fault:
                faults.append(f"{where}: {fault}")
        if value is None:
            continue
        read = setting.read(value)
        if read is not None:
            chosen[name] = read
        else:
            faults.append(f"{where}: {name} must be {setting.expected}, not {value!r}. Fix {fix}.")
    if chosen.get("on_error") == DIVERT:  # the instance goes on as with "fail"
        chosen |= {"on_error": "fail", "diverts": True}
    result = ComponentSettings(**chosen)
    return result, faults + _call_faults(where, declared, result) + _ack_faults(where, declared)


def _other_kind(kind: Kind, name: str) -> str | None:
    other: Kind = "bolt" if kind == "spout" else "spout"
    return f"Only a {other} has this setting. Remove it." if name in SETTINGS_OF_KIND[other] else None


def _call_faults(where: str, declared: object, settings: ComponentSettings) -> list[str]:
    """Return the faults of `concurrency` and `threads`, which depend on the kind of `execute` (ACK-10)."""
    execute = getattr(declared, "execute", None)
    bolt_class = declared if isinstance(declared, type) else type(declared)
    if execute is None or not issubclass(bolt_class, BoltBase):
        return []
    faults = []
    name, kind = bolt_class.__name__, call_kind(execute)
    if issubclass(bolt_class, BurstBolt):
        rows: object = getattr(declared, "burst_rows", 1)
        if count_from(rows, 1) is None:
            faults.append(f"{where}: burst_rows must be a whole number of at least 1, not {rows!r}. Fix {name}.burst_rows.")
        if settings.concurrency > 1:
            remedy = f"Remove concurrency={settings.concurrency}, or raise the parallelism."
            faults.append(f"{where}: a BurstBolt takes one burst at a time. {remedy}")
    elif settings.concurrency > 1 and not kind.is_async:
        faults.append(
            f"{where}: concurrency={settings.concurrency} needs an `async def execute`, but {name}.execute is a {_words(kind)}. "
            "Make it async, raise the parallelism, or set threads of a BasicBolt."
        )
    if settings.threads and issubclass(bolt_class, BurstBolt):
        faults.append(f"{where}: a BurstBolt has no threads. Remove threads={settings.threads}, or derive {name} from BasicBolt.")
    elif settings.threads and not issubclass(bolt_class, BasicBolt):
        faults.append(f"{where}: threads={settings.threads} needs a BasicBolt, but {name} is not one. Derive it from BasicBolt.")
    elif settings.threads and kind.is_async:
        faults.append(
            f"{where}: threads={settings.threads} needs a plain `def execute`, but {name}.execute is an {_words(kind)}. "
            "Set concurrency instead."
        )
    return faults


def _ack_faults(where: str, declared: object) -> list[str]:
    """Return a fault if a BurstSpout has both `ack` and `ack_many`, because the engine would ignore the first."""
    owner: Any = declared if isinstance(declared, type) else type(declared)
    if not issubclass(owner, BurstSpout) or owner.ack_many is BurstSpout.ack_many:
        return []
    one, many = (next(each for each in owner.__mro__ if method in vars(each)) for method in ("ack", "ack_many"))
    if not issubclass(one, many):  # a base class may have `ack`, and its subclass replaces it by `ack_many`
        return []
    return [f"{where}: {owner.__name__} has both ack() and ack_many(), but the engine calls only ack_many(). Remove {one.__name__}.ack()."]


def _words(kind: CallKind) -> str:
    return "plain def" if kind is CallKind.PLAIN else kind.value


def _class_name(declared: object) -> str:
    return declared.__name__ if isinstance(declared, type) else type(declared).__name__
