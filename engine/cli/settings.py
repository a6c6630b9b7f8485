"""Reads settings from all sources, and remembers the source of each value.

A later source overrides an earlier one:

1. the defaults of `Config`,
2. `config` in the topology file: a mapping, or a `Config` of which only the changed values count,
3. the table `[engine]` of the file of `--config`,
4. environment variables `ENGINE_<NAME>`,
5. `-c name=value`.

The file and `-c` also take Storm's keys, such as `topology.max.spout.pending`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import click

from engine.cli.console.output import print_to_stderr
from engine.cli.console.user_file import why_unreadable
from engine.cli.topology_file import LoadedTopology
from engine.config import SETTING_OF_STORM_KEY, SETTINGS, Config, SettingFault, contradictions, unknown_key
from engine.errors import ConfigError
from engine.names import nearest

DEFAULT_ORIGIN: Final = "default"
_TABLE: Final = "engine"
_STORM_TABLE: Final = "topology"
_VARIABLE_PREFIX: Final = "ENGINE_"
_OTHER_VARIABLES: Final = frozenset({"ENGINE_HTTP_TOKEN"})
"""Variables with the prefix that are no settings, because `--show-config` must not print them."""
_F = TypeVar("_F")


@dataclass(frozen=True, slots=True)
class Settings:
    """Config of a run, with the source of each value."""

    config: Config
    origin: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """One line for each key of Storm among the sources, and for each ignored variable whose name is almost a setting."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting, as `--show-config` shows it."""

    key: str
    value: object
    origin: str
    help: str


@dataclass(slots=True)
class _Collected:
    """Values of the sources so far, with all faults. Later values replace earlier ones."""

    values: dict[str, object] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def setting_of(self, key: str) -> str | None:
        """Return the setting of a key, None for an unknown key. Add a note for a key of Storm."""
        name = SETTING_OF_STORM_KEY.get(key)
        if name is None:
            return key if key in SETTINGS else None
        note = f"{key!r} is {name} here"
        if note not in self.notes:
            self.notes.append(note)
        return name

    def set_value(self, key: str, value: object, place: str) -> None:
        """Check and store a typed value."""
        try:
            self.values[key] = SETTINGS[key].check(value)
            self.origin[key] = place
        except SettingFault as fault:
            self.faults.append(f"{place} {fault}.")

    def parse_value(self, key: str, text: str, place: str) -> None:
        """Parse and store a value given as text."""
        try:
            self.values[key] = SETTINGS[key].parse(text)
            self.origin[key] = place
        except SettingFault as fault:
            self.faults.append(f"{place} {fault}.")


def read_settings(
    *,
    flags: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
    file_config: Config | Mapping[str, object] | None = None,
    topology_file: Path | None = None,
) -> Settings:
    """Merge the settings of all sources. Raise one `ConfigError` with the faults of all sources.

    `flags` are the values of `-c`, in the form `name=value`. `file_config` is the variable `config` of the topology file.
    """
    collected = _Collected()
    if file_config is not None:
        _from_topology_file(collected, file_config, str(topology_file or "the topology file"))
    if config_file is not None:
        _from_toml(collected, config_file)
    _from_environment(collected, environ or {})
    _from_flags(collected, flags)
    _find_contradictions(collected)
    if collected.faults:
        raise ConfigError(collected.faults)
    origin = {name: collected.origin.get(name, DEFAULT_ORIGIN) for name in SETTINGS}
    return Settings(Config.from_mapping(collected.values), origin, tuple(collected.notes))


def _from_topology_file(collected: _Collected, config: Config | Mapping[str, object], file: str) -> None:
    if isinstance(config, Config):
        values = {name: getattr(config, name) for name in SETTINGS}
        config = {name: value for name, value in values.items() if value != SETTINGS[name].default}
    for key, value in config.items():
        if key in SETTINGS:
            collected.set_value(key, value, f"{file}: config {key}")
        else:
            collected.faults.append(f"{file}: config: {unknown_key(str(key))} If `config` is not for the engine, rename the variable.")


def _from_toml(collected: _Collected, path: Path) -> None:
    import tomllib  # imported here, because only --config needs tomllib

    trouble = why_unreadable(path, ".toml")
    if trouble is not None:
        collected.faults.append("--config: {}. {}".format(*trouble))
        return
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        collected.faults.append(f"--config: {path} cannot be read: {error.strerror}. Check its permissions.")
    except UnicodeDecodeError as error:
        collected.faults.append(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.")
    except tomllib.TOMLDecodeError as error:
        collected.faults.append(f"{path} is not valid TOML: {error}. Correct this line.")
    else:
        _from_document(collected, document, path)


def _from_document(collected: _Collected, document: dict[str, object], path: Path) -> None:
    """Take the table `[engine]` and the keys of Storm beside it. Other tables belong to the user."""
    storms = {key: document.pop(key) for key in list(document) if _is_storms(key)}
    table = document.pop(_TABLE, None if document and not storms else {})
    outside = [key for key, value in document.items() if not isinstance(value, dict)]
    collected.faults.extend(f"{path}: {key} is outside of a table. Move it under [{_TABLE}]." for key in outside)
    taken: dict[str, str] = {}
    if isinstance(table, dict):
        _from_table(collected, table, f"{path}: [{_TABLE}]", taken)
    elif table is not None:
        collected.faults.append(f"{path}: {_TABLE} is not a table. Write [{_TABLE}] with the settings under it.")
    elif not outside:
        tables = ", ".join(f"[{key}]" for key in document)
        collected.faults.append(f"{path} has no table [{_TABLE}] (it has {tables}). Move the engine's settings under [{_TABLE}].")
    _from_table(collected, storms, f"{path}:", taken, if_own=f" If [{_STORM_TABLE}] is your own table, rename it.")


def _is_storms(key: str) -> bool:
    return f"{key}.".startswith(f"{_STORM_TABLE}.")


def _from_table(collected: _Collected, table: dict[str, object], where: str, taken: dict[str, str], if_own: str = "") -> None:
    """Take the values of one table. `taken` maps the settings of this file so far to their places."""
    for key, value in _flattened(table):
        name, place = collected.setting_of(key), f"{where} {key}"
        if name is None:
            collected.faults.append(f"{where.rstrip(':')}: {unknown_key(key)}{if_own}")
        elif name in taken:
            collected.faults.append(f"{place} and {taken[name]} are the same setting. Remove one of the two.")
        else:
            taken[name] = place
            if value == "none":  # TOML has no null
                collected.parse_value(name, "none", place)
            else:
                collected.set_value(name, value, place)


def _flattened(table: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield keys and values of a table. Nested tables of Storm yield dotted keys: `topology.max.spout.pending`."""
    waiting = list(reversed(table.items()))
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict) and _is_storms(key):
            waiting.extend((f"{key}.{inner}", part) for inner, part in reversed(value.items()))
        else:
            yield key, value


def _from_environment(collected: _Collected, environ: Mapping[str, str]) -> None:
    """Take the variables that are settings. Kubernetes sets others, such as `ENGINE_SERVICE_HOST` for a Service called `engine`."""
    for variable, text in sorted(environ.items()):
        if not variable.startswith(_VARIABLE_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        key = variable.removeprefix(_VARIABLE_PREFIX).lower()
        if key in SETTINGS and variable.isupper():
            collected.parse_value(key, text, variable)
        elif (near := key if key in SETTINGS else nearest(key, SETTINGS)) is not None:
            collected.notes.append(f"{variable} is ignored: no setting has this name. Did you mean {_VARIABLE_PREFIX}{near.upper()}?")


def _from_flags(collected: _Collected, flags: Iterable[str]) -> None:
    for flag in flags:
        key, equals, text = (part.strip() for part in flag.partition("="))
        if not equals:
            near = f"{key}=…" if key in SETTINGS or key in SETTING_OF_STORM_KEY else "name=value"
            collected.faults.append(f"-c {flag!r} has no value. Write -c {near}")
            continue
        name = collected.setting_of(key)
        if name is None:
            collected.faults.append(f"-c: {unknown_key(key)}")
        else:
            collected.parse_value(name, text, f"-c {key}")


def _find_contradictions(collected: _Collected) -> None:
    for keys, text in contradictions(collected.values):
        places = " and ".join(collected.origin[key] for key in keys if key in collected.origin)
        collected.faults.append(f"{places}: {text}")


def setting_rows(settings: Settings) -> list[SettingRow]:
    """Return every setting with its value, its source and its help."""
    return [SettingRow(name, getattr(settings.config, name), settings.origin[name], spec.help) for name, spec in SETTINGS.items()]


def settings_table(rows: Iterable[SettingRow]) -> str:
    """Return rows as aligned text. Values are written as in a flag or a variable."""
    cells = [("setting", "value", "from", "meaning"), *((row.key, value_text(row.value), row.origin, row.help) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]) for line in cells)


def settings_json(rows: Iterable[SettingRow]) -> str:
    """Return rows as one JSON object: name → value, origin, help."""
    return json.dumps({row.key: {"value": row.value, "origin": row.origin, "help": row.help} for row in rows}, indent=2)


def value_text(value: object) -> str:
    """Return a value as written in a flag or a variable: `none`, `true`, `1000`."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def topology_argument(function: _F) -> _F:
    """Add `FILE[:NAME]` as `spec`."""
    return click.argument("spec", metavar="FILE[:NAME]")(function)  # type: ignore[type-var]


def topology_argument_optional(function: _F) -> _F:
    """Add an optional `FILE[:NAME]` as `spec`, by default None."""
    return click.argument("spec", metavar="FILE[:NAME]", required=False)(function)  # type: ignore[type-var]


def settings_options(function: _F) -> _F:
    """Add `-c` as `flags` and `--config` as `config_file`."""
    flags = click.option("-c", "flags", metavar="NAME=VALUE", multiple=True, help="A setting. May be repeated. --show-config lists all.")
    file = click.option(
        "--config",
        "config_file",
        metavar="FILE.toml",
        type=click.Path(path_type=Path),
        help="Settings from the table [engine] of a TOML file.",
    )
    return flags(file(function))  # type: ignore[type-var]


def load_settings(flags: tuple[str, ...], config_file: Path | None, loaded: LoadedTopology | None = None) -> Settings:
    """Read the settings from defaults, topology file, TOML file, environment and flags.

    Each key of Storm among them is noted on standard error, and so is each variable with an almost right name.
    """
    settings = read_settings(
        flags=flags,
        environ=os.environ,
        config_file=config_file,
        file_config=None if loaded is None else loaded.config,
        topology_file=None if loaded is None else loaded.path,
    )
    for note in settings.notes:
        print_to_stderr(note)
    return settings
