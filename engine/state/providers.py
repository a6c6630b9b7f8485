"""From the text of `Config.state_provider` to a provider: by the scheme of its URL, or by the name of a user's class."""

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from engine.errors import EngineError, StateError, StateProviderError
from engine.names import did_you_mean
from engine.raised import headline, raised_text, user_places
from engine.state.api import StateProvider

EXAMPLES: Final = "memory://, sqlite:///counts.db, redis://host:6379/0, zookeeper://host:2181/path, or yours: package.module:function?url"


def _memory(url: str) -> StateProvider:
    from engine.state.memory import MemoryProvider  # each provider loads what it needs when it is chosen

    if url != "memory://":
        raise StateError(f"state_provider={url!r}: memory:// takes nothing more", hint="State that survives: sqlite:///counts.db")
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
    """Return the path in a sqlite:/// URL; None where it names no file. Escapes that are no UTF-8 are bytes, as in names of files."""
    try:
        parts = urlsplit(url)
        path = unquote(parts.path, errors="surrogateescape").removeprefix("/")
        os.fsencode(path)
    except ValueError:  # brackets without an address, or a text that no file can be called
        return None
    is_whole = url.startswith("sqlite://") and not (parts.netloc or parts.query or parts.fragment)
    return Path(path) if is_whole and path and "\0" not in path else None


def _redis(url: str) -> StateProvider:
    """`redis://[[user]:password@]host[:port][/db][?prefix=...]`, or `rediss://` for TLS."""
    try:
        from engine.state.redis.provider import redis_provider
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise StateError("redis:// needs the client of Redis, which is not installed", hint="pip install 'stormcell[redis]'") from error
    return redis_provider(url)


def _zookeeper(url: str) -> StateProvider:
    """`zookeeper://[user:password@]host[:port][,host[:port]][/path][?lease_secs=...]`."""
    try:
        from engine.state.zookeeper.provider import zookeeper_provider
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise StateError(
            "zookeeper:// needs the client of ZooKeeper, which is not installed", hint="pip install 'stormcell[zookeeper]'"
        ) from error
    return zookeeper_provider(url)


SCHEMES: Final[Mapping[str, Callable[[str], StateProvider]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
    "zookeeper": _zookeeper,
}


def provider_of(url: str) -> StateProvider:
    """Return the provider that a URL names, not opened yet; raise StateProviderError where it names none, or making it raises.

    `package.module:name` calls that function, without arguments or, behind a `?`, with the rest of the text.
    """
    try:
        return _made(url)
    except KeyboardInterrupt:
        raise
    except StateError as error:
        raise StateProviderError(error.message, hint=error.hint) from error
    except BaseException as error:
        if isinstance(error, EngineError) or not user_places(error):
            raise  # an error with a text of its own, or one that no line of the user's led to
        text = f"state_provider={url.partition('?')[0]!r}: making the provider raised {raised_text(error)}"
        raise StateProviderError(text, hint="Correct it; what needs the world belongs in its open().") from error


def _made(url: str) -> StateProvider:
    scheme, separator, _ = url.partition("://")
    if separator and scheme in SCHEMES:
        return SCHEMES[scheme](url)
    named = url.partition("?")[0]
    if ":" in named and "://" not in named:
        return _own(url)
    hint = f"{did_you_mean(scheme, SCHEMES)} State providers look like {EXAMPLES}."
    raise StateError(f"state_provider={url!r}: there is no state provider of this kind", hint=hint)


def _own(text: str) -> StateProvider:
    named, _, argument = text.partition("?")
    module_name, _, name = named.partition(":")
    how = "Write package.module:function."
    try:
        made = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # the user's module may raise anything
        raise StateError(f"state_provider={text!r} cannot be loaded: {headline(error)}", hint=how) from error
    if not callable(made):
        raise StateError(f"state_provider={text!r}: {name} is {made!r}, which cannot be called", hint=how)
    try:
        provider = made(argument) if argument else made()
    except EngineError:
        raise
    except Exception as error:  # the user's function, too
        what = f"state_provider={named!r}: making the provider raised {raised_text(error)}"
        raise StateError(what, hint="Correct it; what needs the world belongs in its open().") from error
    if not isinstance(provider, StateProvider):
        raise StateError(f"state_provider={text!r} gave {provider!r}, which is no StateProvider", hint="Derive from engine.StateProvider.")
    return provider
