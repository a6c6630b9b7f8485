"""The streams of a spout whose rows have event times (ET-1)."""

from types import MappingProxyType
from typing import TypeVar

from engine.api.fields import Fields, Streams
from engine.event_time import EventTime
from engine.names import FAILED_STREAM, did_you_mean
from engine.topology.diverting import FAILED_FIELDS

S = TypeVar("S", Streams, Streams | None)


def with_timed_rows(where: str, streams: S, event_time: EventTime | None) -> tuple[S | Streams, Fields | None, list[str]]:
    """Return the streams of a spout, the fields of the values that it emits if its rows are made of them, and the faults."""
    if event_time is None or streams is None:
        return streams, None, []
    rows = event_time.rows
    if rows is None:
        return streams, None, _field_faults(where, streams, event_time)
    given = streams.get(rows.stream)
    if given is None:
        return streams, None, []  # the subscription to it is a fault
    made = {**streams, rows.stream: Fields(*rows.names)}
    if rows.diverts:
        made[FAILED_STREAM] = FAILED_FIELDS
    return MappingProxyType(made), given, []


def _field_faults(where: str, streams: Streams, event_time: EventTime) -> list[str]:
    if not isinstance(event_time.time, str):
        return [f"{where}: event_time takes the name of a field here. Only a flow takes a function: stream(...).event_time(...)."]
    faults = []
    for name, fields in streams.items():
        if event_time.time not in fields.names:
            remedy = did_you_mean(event_time.time, fields.names)
            faults.append(f"{where}: stream {name!r} has no field {event_time.time!r} with the event time. {remedy}")
        elif fields.direct:
            faults.append(f"{where}: the direct stream {name!r} cannot have event times. Choose the task by a custom grouping instead.")
    return faults
