"""Finds the state provider for `Config.state_provider`, which is a URL or names a user's function."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from engine.errors import EngineError, StateError, StateProviderError
from engine.installation import install_command
from engine.names import did_you_mean
from engine.raised import headline, raised_text, user_places
from engine.state.api import StateProvider

EXAMPLES: Final = "memory://, sqlite:///counts.db, redis://host:6379/0, zookeeper://host:2181/path, or yours: package.module:function?url"


@contextmanager
def client_import(package: str, needs: str, *, extra: str | None = None) -> Iterator[None]:
    """Raise StateError if the block imports a client that is not installed. extra: the pip extra, by default `package`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise StateError(f"{needs}, which is not installed", hint=install_command(extra or package)) from error


def _memory(url: str) -> StateProvider:
    from engine.state.memory import MemoryProvider  # imports a client only when its provider is chosen

    if url != "memory://":
        raise StateError(
            f"state_provider={url!r}: memory:// has no options", hint="For state that survives the process: sqlite:///counts.db"
        )
    return MemoryProvider()


def _sqlite(url: str) -> StateProvider:
    """`sqlite:///relative.db`, `sqlite:////absolute.db`."""
    from engine.state.sqlite.provider import SqliteProvider

    path = sqlite_path(url)
    if path is None:
        raise StateError(
            f"state_provider={url!r} names no file",
            hint="Three slashes, then the path: sqlite:///counts.db or sqlite:////var/lib/counts.db",
        )
    return SqliteProvider(path)


def sqlite_path(url: str) -> Path | None:
    """Return the path of a sqlite:/// URL, None if it names no file. Escapes outside UTF-8 are bytes, as in file names."""
    try:
        parts = urlsplit(url)
        path = unquote(parts.path, errors="surrogateescape").removeprefix("/")
        os.fsencode(path)
    except ValueError:  # brackets without an address, or characters that no file name can have
        return None
    is_whole = url.startswith("sqlite://") and not (parts.netloc or parts.query or parts.fragment)
    return Path(path) if is_whole and path and "\0" not in path else None


def _redis(url: str) -> StateProvider:
    """`redis://[[user]:password@]host[:port][/db][?prefix=...]`, or `rediss://` for TLS."""
    with client_import("redis", "redis:// needs the client of Redis"):
        from engine.state.redis.provider import redis_provider
    return redis_provider(url)


def _zookeeper(url: str) -> StateProvider:
    """`zookeeper://[user:password@]host[:port][,host[:port]][/path][?lease_secs=...]`."""
    with client_import("kazoo", "zookeeper:// needs the client of ZooKeeper", extra="zookeeper"):
        from engine.state.zookeeper.provider import zookeeper_provider
    return zookeeper_provider(url)


SCHEMES: Final[Mapping[str, Callable[[str], StateProvider]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
    "zookeeper": _zookeeper,
}


def provider_of(url: str) -> StateProvider:
    """Return the provider of a URL, not yet opened. Raises StateProviderError for an unknown provider, or if its creation fails.

    `package.module:name` calls that function. Text after a `?` is its argument.
    """
    try:
        return _made(url)
    except KeyboardInterrupt:
        raise
    except StateError as error:
        raise StateProviderError(error.message, hint=error.hint) from error
    except BaseException as error:
        if isinstance(error, EngineError) or not user_places(error):
            raise  # the error has its own text, or no user code is in its traceback
        text = f"state_provider={url.partition('?')[0]!r}: creating the provider raised {raised_text(error)}"
        raise StateProviderError(text, hint="Correct the function. Access files and network in open() of the provider.") from error


def _made(url: str) -> StateProvider:
    scheme, separator, _ = url.partition("://")
    if separator and scheme in SCHEMES:
        return SCHEMES[scheme](url)
    named = url.partition("?")[0]
    if ":" in named and "://" not in named:
        return _own(url)
    hint = f"{did_you_mean(scheme, SCHEMES)} State providers look like {EXAMPLES}."
    raise StateError(f"state_provider={url!r}: there is no such state provider", hint=hint)


def _own(text: str) -> StateProvider:
    named, _, argument = text.partition("?")
    module_name, _, name = named.partition(":")
    how = "Write package.module:function."
    try:
        made = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # a user's module may raise anything
        raise StateError(f"state_provider={text!r} cannot be loaded: {headline(error)}", hint=how) from error
    if not callable(made):
        raise StateError(f"state_provider={text!r}: {name} is {made!r}, which is not callable", hint=how)
    try:
        provider = made(argument) if argument else made()
    except EngineError:
        raise
    except Exception as error:  # a user's function may raise anything
        what = f"state_provider={named!r}: creating the provider raised {raised_text(error)}"
        raise StateError(what, hint="Correct the function. Access files and network in open() of the provider.") from error
    if not isinstance(provider, StateProvider):
        raise StateError(
            f"state_provider={text!r} returned {provider!r}, which is not a StateProvider", hint="Derive from engine.StateProvider."
        )
    return provider
