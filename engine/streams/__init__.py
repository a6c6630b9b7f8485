"""Typed streams: rows instead of tuples, functions instead of bolts, in a flow that becomes an ordinary topology (docs/STREAMS.md)."""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.streams.aggregates import Aggregate
    from engine.streams.arguments import RowCall, SinkOptions, StageOptions, TimeSettings
    from engine.streams.flow import Flow, SourceOptions
    from engine.streams.json_rows import JsonOf, json_of
    from engine.streams.put import Put
    from engine.streams.rows import Failed, Keyed, Revised, RowMisfit, StageError
    from engine.streams.streams import (
        KeyedStream,
        RevisedStage,
        RevisedStream,
        RevisedWindowedStage,
        RevisedWindowedStream,
        Sink,
        Stage,
        Stream,
        WindowedStage,
        WindowedStream,
        merge,
    )
    from engine.streams.times import days, hours, milliseconds, minutes, seconds
    from engine.streams.windowed_bolt import WindowedBolt
    from engine.streams.windows import Late, Windowed, calendar, session, sliding, tumbling
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.streams.aggregates": "Aggregate",
            "engine.streams.arguments": "RowCall SinkOptions StageOptions TimeSettings",
            "engine.streams.flow": "Flow SourceOptions",
            "engine.streams.json_rows": "JsonOf json_of",
            "engine.streams.put": "Put",
            "engine.streams.rows": "Failed Keyed Revised RowMisfit StageError",
            "engine.streams.streams": "KeyedStream RevisedStage RevisedStream RevisedWindowedStage RevisedWindowedStream Sink Stage Stream "
            "WindowedStage WindowedStream merge",
            "engine.streams.times": "days hours milliseconds minutes seconds",
            "engine.streams.windowed_bolt": "WindowedBolt",
            "engine.streams.windows": "Late Windowed calendar session sliding tumbling",
        },
    )

__all__ = [
    "Aggregate",
    "Failed",
    "Flow",
    "JsonOf",
    "Keyed",
    "KeyedStream",
    "Late",
    "Put",
    "Revised",
    "RevisedStage",
    "RevisedStream",
    "RevisedWindowedStage",
    "RevisedWindowedStream",
    "RowCall",
    "RowMisfit",
    "Sink",
    "SinkOptions",
    "SourceOptions",
    "Stage",
    "StageError",
    "StageOptions",
    "Stream",
    "TimeSettings",
    "Windowed",
    "WindowedBolt",
    "WindowedStage",
    "WindowedStream",
    "calendar",
    "days",
    "hours",
    "json_of",
    "merge",
    "milliseconds",
    "minutes",
    "seconds",
    "session",
    "sliding",
    "tumbling",
]
