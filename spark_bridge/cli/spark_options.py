"""Options of the commands that start a session of Spark."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from engine.errors import ConfigError

if TYPE_CHECKING:
    from spark_bridge.process import SparkConfig

_OPTIONS: Final = (
    click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="URL",
        help="Spark to use: local[2], spark://host:7077, yarn, k8s://…, sc://host:15002.",
    ),
    click.option("--conf", "conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark. May be repeated."),
    click.option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver: 512m, 2g.  [default: 1g]"),
    click.option("--jars", metavar="PATHS", help="Jars for Spark, separated by commas."),
    click.option("--py-files", metavar="PATHS", help="Python files and zips for the executors, separated by commas."),
    click.option("--archives", metavar="PATHS", help="Archives that executors import from: env.tar.gz#environment. Separated by commas."),
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a session to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def spark_config(chosen: Mapping[str, Any], app_name: str) -> "SparkConfig":
    """Return the configuration of Spark. Raise ConfigError with all faults."""
    from spark_bridge.process import SparkConfig

    return SparkConfig(
        master=chosen["master"],
        app_name=app_name,
        driver_memory=chosen["driver_memory"],
        conf=pairs_of(chosen["conf"], "--conf"),
        jars=_paths(chosen["jars"]),
        py_files=_paths(chosen["py_files"]),
        archives=_paths(chosen["archives"]),
    )


def pairs_of(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the values of a repeated option NAME=VALUE. Raise ConfigError with all faults."""
    pairs = [text.partition("=") for text in texts]
    faults = [f"{option} {name!r} has no value. Write {option} NAME=VALUE." for name, equals, _ in pairs if not equals]
    if faults:
        raise ConfigError(faults, headline="command line")
    return {name.strip(): value for name, _, value in pairs}


def _paths(text: str | None) -> tuple[str, ...]:
    return tuple(path for path in (text or "").split(",") if path)
