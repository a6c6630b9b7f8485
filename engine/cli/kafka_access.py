"""What all commands of `kafka` have: the options that say how to reach the cluster, and words for what is in the way."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from engine.cli.paths import why_unreadable
from engine.errors import ConfigError, EngineError, UsageError

if TYPE_CHECKING:
    from engine.kafka.cluster_link import ClusterConfig, ClusterLink

PASSWORD_VARIABLE: Final = "KAFKA_PASSWORD"
WRONG: Final = 2
SECURITY_HELP: Final = """\
\b
FILE.toml holds what KafkaSecurity takes:
  protocol = "SASL_SSL"
  mechanism = "SCRAM-SHA-512"
  username = "ann"
  cafile = "ca.pem"
A password that is not there is taken from KAFKA_PASSWORD, or asked for on a terminal.
"""
_TEXTS: Final = ("protocol", "mechanism", "username", "password", "cafile", "certfile", "keyfile", "key_password")
_NAMES: Final = (*_TEXTS, "check_hostname")
_F = TypeVar("_F")


def cluster_options(function: _F) -> _F:
    """Add `--brokers` and `--security`."""
    brokers = click.option(
        "--brokers",
        metavar="HOST:PORT",
        envvar="KAFKA_BROKERS",
        required=True,
        help="Where to begin; also KAFKA_BROKERS. Several: a:9092,b:9092.",
    )
    security = click.option(
        "--security",
        metavar="FILE.toml",
        envvar="KAFKA_SECURITY",
        type=click.Path(path_type=Path),
        help="TLS and SASL, see below; also KAFKA_SECURITY.",
    )
    return brokers(security(function))  # type: ignore[type-var]


def json_option(text: str) -> Callable[[_F], _F]:
    """Add `--json` as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)  # type: ignore[return-value]


def ask_cluster(brokers: str, security: Path | None, work: Callable[["ClusterLink"], Coroutine[Any, Any, int | None]]) -> int:
    """Connect, do it, and return the exit status; say in words what is in the way."""
    from engine.cli.show_error import show_error

    try:
        config = _config(brokers, security)
        with _silent_client():
            return asyncio.run(_connected(config, work)) or 0
    except EngineError as error:
        show_error(error)
        return WRONG


@contextmanager
def _silent_client() -> Iterator[None]:
    """Have aiokafka log nothing: what it would say is told here anyway, once."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _connected(config: "ClusterConfig", work: Callable[["ClusterLink"], Coroutine[Any, Any, int | None]]) -> int | None:
    from engine.kafka.cluster_link import connected

    async with connected(config) as link:
        return await work(link)


def _config(brokers: str, security: Path | None) -> "ClusterConfig":
    try:
        from engine.kafka import KafkaSecurity
        from engine.kafka.cluster_link import ClusterConfig
    except ImportError as error:
        if error.name not in (None, "aiokafka"):
            raise
        raise UsageError("this needs aiokafka, which is not installed", hint="Install it: pip install 'stormcell[kafka]'") from error
    if security is None:
        return ClusterConfig(brokers=brokers)
    values = dict(_table(security))
    if str(values.get("protocol", "")).startswith("SASL") and "username" in values and "password" not in values:
        values["password"] = _password(str(values["username"]))
    folder = security.parent
    for name in ("cafile", "certfile", "keyfile"):
        if isinstance(path := values.get(name), str):
            values[name] = str(folder / path)  # what is relative, is so to the file that says it
    return ClusterConfig(brokers=brokers, security=KafkaSecurity(**values))


def _table(path: Path) -> Mapping[str, Any]:
    """Return what the file says, at its top or in a table [kafka]."""
    import tomllib

    trouble = why_unreadable(path, ".toml")
    if trouble is not None:
        raise UsageError(f"--security: {trouble[0]}", hint=trouble[1])
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--security: {path} cannot be read: {error}", hint="Write TOML, in UTF-8.") from error
    table = document.get("kafka", document)
    if not isinstance(table, dict):
        raise UsageError(f"--security: in {path}, kafka is no table", hint="Write [kafka], and the settings under it.")
    faults = [f"{name} is not known here. It takes {', '.join(_NAMES)}." for name in table if name not in _NAMES]
    faults += [f"{name} must be text. Write it in quotes." for name in table if name in _TEXTS and not isinstance(table[name], str)]
    if faults:
        raise ConfigError(faults, headline=f"--security {path}")
    return table


def _password(username: str) -> str:
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        hint = f"Set {PASSWORD_VARIABLE}, or write password=... into the file that --security names."
        raise UsageError(f"there is no password for {username!r}, and no terminal to ask on", hint=hint)
    found: str = click.prompt(f"Password of {username}", hide_input=True, err=True)
    return found
