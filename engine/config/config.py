"""`Config` is a frozen dataclass with all settings of a run.

The names are Storm's keys without `topology.`, in snake case. The constructor checks all values and reports all faults at once, so a
`Config` that exists is valid.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from engine.config.setting import Setting, SettingFault, setting, settings_of
from engine.config.storm_keys import SETTING_OF_STORM_KEY, answer_for_storm_key
from engine.errors import ConfigError
from engine.names import nearest

_C_INT_MAXIMUM: Final = 2**31 - 1
_T = TypeVar("_T")


def _refuse_unknown_keys(config_class: type[_T]) -> type[_T]:
    """For an unknown keyword, raise a ConfigError that names the nearest setting, instead of a bare TypeError."""
    generated: Callable[..., None] = config_class.__init__

    @functools.wraps(generated)
    def init(self: _T, **values: Any) -> None:
        known = [field.name for field in dataclasses.fields(config_class)]  # type: ignore[arg-type]
        unknown = [unknown_key(key, known) for key in values if key not in known]
        if unknown:
            others = {key: value for key, value in values.items() if key in known}
            raise ConfigError(unknown + faults_of(others))
        generated(self, **values)

    config_class.__init__ = init  # type: ignore[method-assign, assignment]
    return config_class


@_refuse_unknown_keys
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one run.

    >>> Config(max_spout_pending=1000).message_timeout_secs
    30.0
    """

    acker_executors: int = setting(1, minimum=0, maximum=4096, help="Acker tasks. 0 switches tracking off: each emit is acked at once.")
    message_timeout_secs: float = setting(30.0, above=0, help="Seconds without progress (see timeout_from) after which an open tree fails.")
    enable_message_timeouts: bool = setting(True, help="Whether trees time out. The engine's own trees always do.")
    timeout_from: Literal["progress", "emit"] = setting(
        "progress", help="Start of message_timeout_secs: the last progress of a tree, or (as in Storm) its emit."
    )
    max_spout_pending: int | Literal["auto"] | None = setting(
        None,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help="Open trees per spout task. none: no limit. auto: the engine adapts the limit to the acks.",
    )
    executor_receive_buffer_size: int = setting(
        32768, minimum=2, maximum=2**30, help="Tuples in the mailbox of a task before the tasks that send to it stop."
    )
    burst: int = setting(256, minimum=1, maximum=2**20, help="Tuples that a task handles before other tasks get their turn.")
    on_error: Literal["fail", "restart", "stop"] = setting(
        "fail",
        help="Reaction to an exception of a component. fail: its input fails. restart: also replaces the instance. stop: ends the run.",
    )
    renew_after_failures: int = setting(
        100,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help='Failing calls in a row after which on_error="fail" replaces the instance of the task.',
    )
    max_task_restarts: int = setting(
        5, minimum=0, maximum=_C_INT_MAXIMUM, help="Deaths of one task within restart_window_secs that do not end the run."
    )
    restart_window_secs: float = setting(60.0, above=0, help="Seconds in which the deaths of one task are counted.")
    forgotten_ack: Literal["fail", "wait"] = setting(
        "fail", help="Result of a tuple that a bolt drops without ack or fail: fail at once, or (as in Storm) wait for the timeout."
    )
    call_timeout_secs: float | None = setting(
        None, above=0, help="Seconds that one call of a FlowControlBolt's process() may take. none: message_timeout_secs."
    )
    process_timeout_secs: float | None = setting(
        60.0, above=0, help="Seconds without a sign of life after which the process of a bolt task is killed. none: no limit."
    )
    slow_call_warn_ms: float = setting(
        500.0, above=0, help="Milliseconds that one call of a component may block the loop before a warning."
    )
    drain_timeout_secs: float = setting(30.0, minimum=0, help="Seconds that open trees have to finish when a run drains.")
    key_groups: int = setting(
        128, minimum=1, maximum=32768, help="Groups that keys hash to. This limits the parallelism behind a fields grouping."
    )
    state_provider: str = setting(
        "memory://",
        help="Store of the state: memory://, sqlite:///path, redis://host:port/db or package.module:function. "
        "A transactional topology can also use zookeeper://host:port/path.",
    )
    state_codec: Literal["msgpack", "pickle"] = setting(
        "msgpack", help="Encoding of stored keys and values. pickle stores any object, but runs code when it reads one."
    )
    state_checkpoint_interval_ms: float = setting(1000.0, minimum=5, help="Milliseconds between two checkpoints.")
    processing_guarantee: Literal["exactly_once", "at_least_once"] | None = setting(
        None,
        help="What a topology with state promises. exactly_once: refuse sources that cannot rewind. at_least_once: rewind none, so that "
        "bolts may keep inputs. none: exactly once for the sources that can rewind.",
    )
    checkpoint_timeout_secs: float = setting(600.0, above=0, help="Seconds that a step of a checkpoint may take before the run recovers.")
    state_timeout_secs: float = setting(60.0, minimum=0, help="Seconds of retries while a store is unavailable, before the run ends.")
    standby: bool = setting(
        False, help="Whether to wait while another process runs the topology, and to take over its state when that process ends."
    )
    batch_interval_ms: float = setting(
        50.0, minimum=1, maximum=3_600_000, help="Milliseconds after which an idle transactional spout is polled again."
    )
    batch_timeout_secs: float = setting(600.0, above=0, help="Seconds without progress after which a batch fails and is replayed.")
    max_retries: int | None = setting(
        3,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help="Attempts of a batch, or of an interval between two checkpoints, in which a row must fail before it is given up. none: never.",
    )
    state_cache_keys: int = setting(100_000, minimum=1, help="Keys that a task caches in memory if its state is read from disk (SQLite).")
    seed: int | None = setting(
        None, minimum=0, maximum=2**64 - 1, help="Seed of all randomness of the run. none: a random seed from the operating system."
    )
    event_loop: Literal["auto", "uvloop", "asyncio"] = setting(
        "auto", help="Event loop of the command line. auto: uvloop if it is installed. An embedded run uses the loop of its host."
    )
    trace_sample_rate: float = setting(
        0.0, minimum=0, maximum=1, help="Share of trees (0 to 1) whose path through the components is recorded."
    )
    full_traceback: bool = setting(False, help="Whether tracebacks show all frames, also those of libraries and the engine.")
    stats_interval_secs: float = setting(5.0, above=0, help="Seconds between two lines of figures if there is no live table.")

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in SETTINGS}
        faults = faults_of(given)
        if faults:
            raise ConfigError(faults)
        for name, spec in SETTINGS.items():
            object.__setattr__(self, name, spec.check(given[name]))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], source: str = "mapping") -> "Config":
        """Return the config of a mapping from setting names to values. `source` is named in errors."""
        return _named(source, lambda: cls(**_text_keys(mapping)))

    def replace(self, **changes: Any) -> "Config":
        """Return a copy of this config with some settings changed.

        >>> Config(seed=1).replace(burst=64).burst
        64
        """
        return Config(**{name: getattr(self, name) for name in SETTINGS} | changes)


SETTINGS: Final[Mapping[str, Setting]] = settings_of(Config)
"""Every setting by name, in the order of `Config`."""


def unknown_key(key: str, known: Iterable[str] = ()) -> str:
    """Return the fault text of an unknown key, with the nearest setting or the answer for a key of Storm."""
    answer = answer_for_storm_key(key)
    if answer is not None:
        return f"{key!r} is not a setting. {answer}"
    names = list(known) or list(SETTINGS)
    plain = SETTING_OF_STORM_KEY.get(key) or key.casefold().removeprefix("topology.").replace(".", "_").replace("-", "_")
    near = plain if plain in names else nearest(plain, names) or _setting_that_starts_with(plain.rstrip("s"), names)
    return f"{key!r} is not a setting. " + (f"Did you mean {near!r}?" if near else f"The settings are {', '.join(names)}.")


def _setting_that_starts_with(text: str, names: Sequence[str]) -> str | None:
    found = [name for name in names if name.startswith(text)]
    return found[0] if len(text) >= 4 and found else None


def faults_of(values: Mapping[str, object]) -> list[str]:
    """Return the fault texts of values of known settings, including contradictions between values."""
    faults = []
    for name, value in values.items():
        try:
            SETTINGS[name].check(value)
        except SettingFault as fault:
            faults.append(f"{name} {fault}.")
    return faults + [text for _, text in contradictions(values)]


def contradictions(values: Mapping[str, object]) -> list[tuple[tuple[str, ...], str]]:
    """Return each contradiction between values, as the involved settings and a text."""
    found: list[tuple[tuple[str, ...], str]] = []
    if values.get("timeout_from") == "emit" and values.get("enable_message_timeouts") is False:
        text = "timeout_from='emit' says how trees time out, but enable_message_timeouts=False switches them off. Remove one of the two."
        found.append((("timeout_from", "enable_message_timeouts"), text))
    return found


def _text_keys(mapping: Mapping[Any, object]) -> dict[str, Any]:
    wrong = [key for key in mapping if not isinstance(key, str)]
    if wrong:
        raise ConfigError(f"the key {key!r} is not a string. Use the name of a setting." for key in wrong)
    return dict(mapping)


def _named(source: str, make: Callable[[], Config]) -> Config:
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(error.faults, headline=source) from None
