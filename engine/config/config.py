"""`Config`: all settings of a run, in one frozen dataclass.

The names are Storm's keys without `topology.`, in snake case. A `Config` that exists is valid: it is judged when it is
made, and all its faults are reported at once.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

from engine.config.setting import Setting, SettingFault, setting, settings_of
from engine.config.storm_keys import SETTING_OF_STORM_KEY, answer_for_storm_key
from engine.errors import ConfigError
from engine.names import nearest

_C_INT_MAXIMUM: Final = 2**31 - 1
_T = TypeVar("_T")


def _refuse_unknown_keys(config_class: type[_T]) -> type[_T]:
    """Let an unknown keyword raise a `ConfigError` that names the nearest one, instead of a bare `TypeError`."""
    generated: Callable[..., None] = config_class.__init__

    @functools.wraps(generated)
    def init(self: _T, **values: Any) -> None:
        known = [field.name for field in dataclasses.fields(config_class)]  # type: ignore[arg-type]
        unknown = [unknown_key(key, known) for key in values if key not in known]
        if unknown:
            judged = {key: value for key, value in values.items() if key in known}
            raise ConfigError(unknown + faults_of(judged))
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

    acker_executors: int = setting(
        1, minimum=0, maximum=4096, help="Acker tasks. 0 switches tracking off: ack(message_id) follows the emit at once."
    )
    message_timeout_secs: float = setting(30.0, above=0, help="Seconds without progress (see timeout_from) after which an open tree fails.")
    enable_message_timeouts: bool = setting(True, help="Whether trees time out. The engine's own trees always do.")
    timeout_from: Literal["progress", "emit"] = setting(
        "progress", help="What message_timeout_secs counts from: a tree's last progress, or (as in Storm) its emit."
    )
    max_spout_pending: int | Literal["auto"] | None = setting(
        None,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help="Open trees that one spout task may have; none is no limit, auto the fewest that bring full speed.",
    )
    executor_receive_buffer_size: int = setting(
        32768, minimum=2, maximum=2**30, help="Tuples that the mailbox of a task holds before those who send to it stop."
    )
    burst: int = setting(256, minimum=1, maximum=2**20, help="Tuples that a task handles at most before others get their turn.")
    on_error: Literal["fail", "restart", "stop"] = setting(
        "fail",
        help="What an exception in a component does beside failing its input: nothing, a fresh instance, or the end of the run.",
    )
    renew_after_failures: int = setting(
        100,
        minimum=1,
        maximum=_C_INT_MAXIMUM,
        help='Calls that raise in a row, without one success, after which on_error="fail" gives the task a fresh instance.',
    )
    max_task_restarts: int = setting(
        5, minimum=0, maximum=_C_INT_MAXIMUM, help="Deaths of one task within restart_window_secs that the run survives."
    )
    restart_window_secs: float = setting(60.0, above=0, help="Seconds within which the deaths of one task are counted.")
    forgotten_ack: Literal["fail", "wait"] = setting(
        "fail", help="What becomes of a tuple that a bolt lets go of unsettled: fail at once, or (as in Storm) wait for the timeout."
    )
    call_timeout_secs: float | None = setting(
        None, above=0, help="Seconds that one call of a FlowControlBolt's process() may take; none is message_timeout_secs."
    )
    slow_call_warn_ms: float = setting(500.0, above=0, help="Milliseconds that one call of a component may hold the loop before a warning.")
    drain_timeout_secs: float = setting(30.0, minimum=0, help="Seconds that open trees get to finish when a run drains.")
    key_groups: int = setting(
        128, minimum=1, maximum=32768, help="Groups that keys hash to; the greatest parallelism behind a fields grouping."
    )
    state_provider: str = setting(
        "memory://",
        help="Where stateful bolts keep their state: memory://, sqlite:///path, redis://host:port/db, package.module:function; "
        "of a transactional topology also zookeeper://host:port/path.",
    )
    state_codec: Literal["msgpack", "pickle"] = setting(
        "msgpack", help="How keys and values are stored. pickle takes any object, and runs code when it reads one."
    )
    state_checkpoint_interval_ms: float = setting(
        1000.0, minimum=100, help="Milliseconds between two checkpoints; three times that must fit message_timeout_secs."
    )
    checkpoint_timeout_secs: float = setting(600.0, above=0, help="Seconds that one step of a checkpoint gets before the run recovers.")
    state_timeout_secs: float = setting(
        60.0, minimum=0, help="Seconds for which a store that cannot be reached is tried again before the run ends."
    )
    standby: bool = setting(
        False, help="Whether to wait while another process runs the topology, and go on with its state when that one has ended."
    )
    batch_interval_ms: float = setting(
        50.0, minimum=1, maximum=3_600_000, help="Milliseconds after which a transactional spout that had nothing is asked again."
    )
    batch_timeout_secs: float = setting(
        600.0, above=0, help="Seconds without progress after which a batch of a transactional topology fails and is replayed."
    )
    state_cache_keys: int = setting(100_000, minimum=1, help="Keys that a task keeps in memory of a state that is read from disk (SQLite).")
    seed: int | None = setting(
        None, minimum=0, maximum=2**64 - 1, help="Seed of all randomness of the run; none draws one from the operating system."
    )
    event_loop: Literal["auto", "uvloop", "asyncio"] = setting(
        "auto", help="Loop that the command line starts; auto is uvloop where it is installed. An embedded run has its host's."
    )
    trace_sample_rate: float = setting(
        0.0, minimum=0, maximum=1, help="Share of trees (0 to 1) whose path through the components is recorded."
    )
    full_traceback: bool = setting(False, help="Whether tracebacks show every frame; else those of libraries and the engine are folded.")
    stats_interval_secs: float = setting(5.0, above=0, help="Seconds between two lines of figures where no live table is shown.")

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in SETTINGS}
        faults = faults_of(given)
        if faults:
            raise ConfigError(faults)
        for name, spec in SETTINGS.items():
            object.__setattr__(self, name, spec.check(given[name]))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], source: str = "mapping") -> "Config":
        """Return the config that a mapping of setting names to values describes; `source` is named in errors."""
        return _named(source, lambda: cls(**_text_keys(mapping)))

    def replace(self, **changes: Any) -> "Config":
        """Return this config with other values for some settings.

        >>> Config(seed=1).replace(burst=64).burst
        64
        """
        return Config(**{name: getattr(self, name) for name in SETTINGS} | changes)


SETTINGS: Final[Mapping[str, Setting]] = settings_of(Config)
"""Every setting by name, in the order of `Config`."""


def unknown_key(key: str, known: Iterable[str] = ()) -> str:
    """Return the fault of a key that is no setting; also recognises the keys of Storm and the spellings of shells."""
    answer = answer_for_storm_key(key)
    if answer is not None:
        return f"{key!r} is not a setting. {answer}"
    names = list(known) or list(SETTINGS)
    plain = SETTING_OF_STORM_KEY.get(key) or key.casefold().removeprefix("topology.").replace(".", "_").replace("-", "_")
    near = plain if plain in names else nearest(plain, names)
    return f"{key!r} is not a setting. " + (f"Did you mean {near!r}?" if near else f"The settings are {', '.join(names)}.")


def faults_of(values: Mapping[str, object]) -> list[str]:
    """Return every fault of values for known settings, and how they contradict each other."""
    faults = []
    for name, value in values.items():
        try:
            SETTINGS[name].check(value)
        except SettingFault as fault:
            faults.append(f"{name} {fault}.")
    return faults + [text for _, text in contradictions(values)]


def contradictions(values: Mapping[str, object]) -> list[tuple[tuple[str, ...], str]]:
    """Return, for each contradiction between values, the settings that take part in it and its text."""
    found: list[tuple[tuple[str, ...], str]] = []
    if values.get("timeout_from") == "emit" and values.get("enable_message_timeouts") is False:
        text = "timeout_from='emit' says how trees time out, but enable_message_timeouts=False says that none does. Remove one of the two."
        found.append((("timeout_from", "enable_message_timeouts"), text))
    return found


def _text_keys(mapping: Mapping[Any, object]) -> dict[str, Any]:
    wrong = [key for key in mapping if not isinstance(key, str)]
    if wrong:
        raise ConfigError(f"the key {key!r} is not a text. Name a setting." for key in wrong)
    return dict(mapping)


def _named(source: str, make: Callable[[], Config]) -> Config:
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(error.faults, headline=source) from None
