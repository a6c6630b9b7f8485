"""From what a component declares as `output_fields` to its streams."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from engine.errors import UsageError
from engine.names import DEFAULT_STREAM, is_reserved, is_writable
from engine.topology.fields import Fields

OutputFields: TypeAlias = Fields | str | tuple[str, ...] | Mapping[str, Fields | str | tuple[str, ...]] | None
"""None: no stream. Fields, or the names themselves: the default stream. A mapping: one entry for each stream."""

Streams: TypeAlias = Mapping[str, Fields]
"""Stream name → its fields, read-only, in the order of declaration."""

NO_STREAMS: Streams = MappingProxyType({})


def declare_streams(output_fields: object) -> Streams:
    """Return the streams that an `output_fields` declares; raise UsageError for anything it may not be.

    >>> dict(declare_streams("word"))
    {'default': Fields('word')}
    """
    if output_fields is None:
        return NO_STREAMS
    if not isinstance(output_fields, Mapping):
        return MappingProxyType({DEFAULT_STREAM: _fields(DEFAULT_STREAM, output_fields)})
    streams: dict[str, Fields] = {}
    for stream, fields in output_fields.items():
        _check_stream_name(stream)
        streams[stream] = _fields(stream, fields)
    return MappingProxyType(streams)


def _fields(stream: str, declared: object) -> Fields:
    if isinstance(declared, Fields):
        return declared
    if isinstance(declared, str):
        return Fields(declared)
    if isinstance(declared, (tuple, list)):
        return Fields(*declared)
    raise UsageError(
        f"output_fields of stream {stream!r} must be Fields, not {declared!r} ({type(declared).__name__})",
        hint='Write output_fields = Fields("word"), or {"default": Fields("word"), "late": Fields("word")}.',
    )


def _check_stream_name(stream: object) -> None:
    if not isinstance(stream, str) or not stream:
        raise UsageError(f"a stream name must be a non-empty str, not {stream!r}", hint='Write {"late": Fields("word")}.')
    if not is_writable(stream):
        raise UsageError(f"stream name {stream!r} cannot be written as UTF-8", hint='Write {"late": Fields("word")}.')
    if is_reserved(stream):
        raise UsageError(f"stream name {stream!r} is reserved for the engine", hint="Begin it with neither '__' nor '$'.")


def decorated_fields(decorator: str, arguments: tuple[object, ...]) -> Fields | None:
    """Return the fields that `@spout(...)`, `@bolt(...)` or their like names: names, or one Fields; None for no argument."""
    if not arguments:
        return None
    if len(arguments) == 1 and isinstance(arguments[0], Fields):
        return arguments[0]
    if len(arguments) == 1 and callable(arguments[0]):
        name = getattr(arguments[0], "__name__", "f")
        or_none = f", or @{decorator}() if it emits nothing" if decorator != "spout" else ""
        hint = f'Write @{decorator}("word") above def {name}{or_none}.'
        raise UsageError(f"@{decorator} stands on {name}() without its fields", hint=hint)
    try:
        return Fields(*arguments)  # type: ignore[arg-type]
    except UsageError as error:
        raise UsageError(f"@{decorator}: {error.message}", hint=f'Write @{decorator}("word", "count").') from None
