"""Settings from all their sources, and where each value came from.

A later source overrides an earlier one:

1. the defaults of `Config`,
2. `config` in the topology file, a `Config` (what it changes counts) or a mapping,
3. the table `[engine]` of the file that `--config` names,
4. environment variables `ENGINE_<NAME>`,
5. `-c name=value`.

The file and `-c` also take Storm's keys, such as `topology.max.spout.pending`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.cli.paths import why_unreadable
from engine.config import SETTING_OF_STORM_KEY, SETTINGS, Config, SettingFault, contradictions, unknown_key
from engine.errors import ConfigError
from engine.names import nearest

DEFAULT_ORIGIN: Final = "default"
_TABLE: Final = "engine"
_STORM_TABLE: Final = "topology"
_VARIABLE_PREFIX: Final = "ENGINE_"


@dataclass(frozen=True, slots=True)
class Settings:
    """The config of a run, and for each setting the place that gave its value."""

    config: Config
    origin: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """One line for each of Storm's keys that was taken."""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as it is shown."""

    key: str
    value: object
    origin: str
    help: str


@dataclass(slots=True)
class _Collected:
    """What the sources gave so far, the latest on top, and all their faults."""

    values: dict[str, object] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def setting_of(self, key: str) -> str | None:
        """Return the setting that a user's key names, and note a key of Storm; None for a key that names no setting."""
        name = SETTING_OF_STORM_KEY.get(key)
        if name is None:
            return key if key in SETTINGS else None
        note = f"{key!r} is {name} here"
        if note not in self.notes:
            self.notes.append(note)
        return name

    def give(self, key: str, value: object, place: str) -> None:
        """Take a value that has its type."""
        try:
            self.values[key] = SETTINGS[key].check(value)
            self.origin[key] = place
        except SettingFault as fault:
            self.faults.append(f"{place} {fault}.")

    def parse(self, key: str, text: str, place: str) -> None:
        """Take a value that is still text."""
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
    """Return the settings that all sources together give; raises one `ConfigError` with the faults of all of them.

    `flags` are the values of `-c`, each `name=value`; `file_config` is what the topology file calls `config`.
    """
    collected = _Collected()
    if file_config is not None:
        _from_topology_file(collected, file_config, str(topology_file or "the topology file"))
    if config_file is not None:
        _from_toml(collected, config_file)
    _from_environment(collected, environ or {})
    _from_flags(collected, flags)
    _name_contradictions(collected)
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
            collected.give(key, value, f"{file}: config {key}")
        else:
            collected.faults.append(f"{file}: config: {unknown_key(str(key))} If this is not meant for the engine, rename it.")


def _from_toml(collected: _Collected, path: Path) -> None:
    import tomllib  # only --config needs it

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
        collected.faults.append(f"{path} is not valid TOML: {error}. Correct it there.")
    else:
        _from_document(collected, document, path)


def _from_document(collected: _Collected, document: dict[str, object], path: Path) -> None:
    """Take the table `[engine]` and Storm's keys beside it; other tables are the user's own."""
    storms = {key: document.pop(key) for key in list(document) if _is_storms(key)}
    table = document.pop(_TABLE, None if document and not storms else {})
    outside = [key for key, value in document.items() if not isinstance(value, dict)]
    collected.faults.extend(f"{path}: {key} stands outside a table. Put it under [{_TABLE}]." for key in outside)
    taken: dict[str, str] = {}
    if isinstance(table, dict):
        _from_table(collected, table, f"{path}: [{_TABLE}]", taken)
    elif table is not None:
        collected.faults.append(f"{path}: {_TABLE} is not a table. Write [{_TABLE}], and the settings under it.")
    elif not outside:
        tables = ", ".join(f"[{key}]" for key in document)
        collected.faults.append(f"{path} has no table [{_TABLE}] (it has {tables}). Put the engine's settings under [{_TABLE}].")
    _from_table(collected, storms, f"{path}:", taken, if_own=f" If [{_STORM_TABLE}] is a table of your own, rename it.")


def _is_storms(key: str) -> bool:
    return f"{key}.".startswith(f"{_STORM_TABLE}.")


def _from_table(collected: _Collected, table: dict[str, object], where: str, taken: dict[str, str], if_own: str = "") -> None:
    """Take the values of one table; `taken` has the place of each setting that the file has given so far."""
    for key, value in _flattened(table):
        name, place = collected.setting_of(key), f"{where} {key}"
        if name is None:
            collected.faults.append(f"{where.rstrip(':')}: {unknown_key(key)}{if_own}")
        elif name in taken:
            collected.faults.append(f"{place} and {taken[name]} are the same setting. Remove one of the two.")
        else:
            taken[name] = place
            if value == "none":  # TOML has no null
                collected.parse(name, "none", place)
            else:
                collected.give(name, value, place)


def _flattened(table: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the keys and values of a table, those of Storm's nested tables as dotted keys: `topology.max.spout.pending`."""
    waiting = list(reversed(table.items()))
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict) and _is_storms(key):
            waiting.extend((f"{key}.{inner}", part) for inner, part in reversed(value.items()))
        else:
            yield key, value


def _from_environment(collected: _Collected, environ: Mapping[str, str]) -> None:
    for variable, text in sorted(environ.items()):
        if not variable.startswith(_VARIABLE_PREFIX):
            continue
        key = variable.removeprefix(_VARIABLE_PREFIX).lower()
        if key in SETTINGS and variable.isupper():
            collected.parse(key, text, variable)
        else:
            collected.faults.append(f"{variable}: {_unknown_variable(key)}")


def _unknown_variable(key: str) -> str:
    near = key if key in SETTINGS else nearest(key, SETTINGS)
    if near:
        return f"no setting has this name. Did you mean {_VARIABLE_PREFIX}{near.upper()}?"
    return f"no setting has this name, and {_VARIABLE_PREFIX}… is for settings only. Unset it."


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
            collected.parse(name, text, f"-c {key}")


def _name_contradictions(collected: _Collected) -> None:
    for keys, text in contradictions(collected.values):
        places = " and ".join(collected.origin[key] for key in keys if key in collected.origin)
        collected.faults.append(f"{places}: {text}")


def show(settings: Settings) -> list[Row]:
    """Return every setting with its value, the place that gave it, and its help."""
    return [Row(name, getattr(settings.config, name), settings.origin[name], spec.help) for name, spec in SETTINGS.items()]


def as_table(rows: Iterable[Row]) -> str:
    """Return rows as aligned text; values are spelt as a flag or a variable would."""
    cells = [("setting", "value", "from", "meaning"), *((row.key, value_text(row.value), row.origin, row.help) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]) for line in cells)


def as_json(rows: Iterable[Row]) -> str:
    """Return rows as one JSON object: setting → value, origin, help."""
    return json.dumps({row.key: {"value": row.value, "origin": row.origin, "help": row.help} for row in rows}, indent=2)


def value_text(value: object) -> str:
    """Return a value as a flag or a variable spells it: `none`, `true`, `1000`."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def settings_help() -> str:
    """Return the help of every setting, for `--help`."""
    lines = (f"{spec.name} ({spec.expected()}; default {value_text(spec.default)})\n    {spec.help}" for spec in SETTINGS.values())
    return "\n".join(lines)
