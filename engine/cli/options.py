"""Options and arguments that several commands have."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.cli.durations import parse_duration
from engine.cli.load import LoadedTopology
from engine.cli.output import tell
from engine.cli.settings import Settings, read_settings

_F = TypeVar("_F")


if TYPE_CHECKING:
    _FloatParameter = click.ParamType[float]
else:
    _FloatParameter = click.ParamType  # generic since click 8.4 only


class Duration(_FloatParameter):
    """A duration such as `30s`, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def topology_argument(function: _F) -> _F:
    """Add `FILE[:NAME]` as `spec`."""
    return click.argument("spec", metavar="FILE[:NAME]")(function)  # type: ignore[type-var]


def topology_argument_optional(function: _F) -> _F:
    """Add `FILE[:NAME]` as `spec`, None where it is left out."""
    return click.argument("spec", metavar="FILE[:NAME]", required=False)(function)  # type: ignore[type-var]


def settings_options(function: _F) -> _F:
    """Add `-c` as `flags` and `--config` as `config_file`."""
    flags = click.option("-c", "flags", metavar="NAME=VALUE", multiple=True, help="A setting; may be repeated. See --show-config.")
    file = click.option(
        "--config",
        "config_file",
        metavar="FILE.toml",
        type=click.Path(path_type=Path),
        help="Settings from the table [engine] of a TOML file.",
    )
    return flags(file(function))  # type: ignore[type-var]


def settings_of(flags: tuple[str, ...], config_file: Path | None, loaded: LoadedTopology | None = None) -> Settings:
    """Return the settings from all places: defaults, the topology file, the TOML file, the environment, flags.

    Each of Storm's keys among them is noted on standard error.
    """
    settings = read_settings(
        flags=flags,
        environ=os.environ,
        config_file=config_file,
        file_config=None if loaded is None else loaded.config,
        topology_file=None if loaded is None else loaded.path,
    )
    for note in settings.notes:
        tell(note)
    return settings
