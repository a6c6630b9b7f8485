"""The stream of inputs that have failed for good, which a bolt with `on_error="divert"` has (SV-14)."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from engine.api.fields import Fields, Streams
from engine.names import FAILED_STREAM
from engine.topology.spec import ComponentSpec, Topology

FAILED_FIELDS: Final = Fields("component", "task", "error", "attempts", "values")


def with_failed_stream(where: str, streams: Streams, declared_at: str) -> tuple[Streams, list[str]]:
    """Return the streams of a bolt that diverts, and the fault of one that declares the stream itself."""
    if FAILED_STREAM in streams:
        return streams, [
            f"{where}: on_error='divert' emits failed inputs on the stream {FAILED_STREAM!r}, which {declared_at} declares for another "
            "use. Rename that stream, or choose another on_error."
        ]
    return MappingProxyType({**streams, FAILED_STREAM: FAILED_FIELDS}), []


def diverting_faults(topology: Topology) -> Iterator[str]:
    """Yield a fault for each bolt whose diverted inputs would reach nobody."""
    for spec in topology.bolts:
        if spec.settings.diverts and not topology.subscribers(spec.component_id, FAILED_STREAM):
            yield f"{spec.where}: {_nobody(spec)}"


def _nobody(spec: ComponentSpec) -> str:
    return (
        f"on_error='divert' sends failed inputs to the stream {FAILED_STREAM!r}, but no bolt subscribes to it, so they would be lost. "
        f"Subscribe one: .shuffle_grouping({spec.component_id!r}, stream={FAILED_STREAM!r}), or choose another on_error."
    )
