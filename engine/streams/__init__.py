"""Typed streams: rows instead of tuples, functions instead of bolts, in a flow that becomes an ordinary topology (docs/STREAMS.md)."""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.streams.arguments import RowCall, SinkOptions, StageOptions
    from engine.streams.flow import Flow, SourceOptions
    from engine.streams.json_rows import JsonOf, json_of
    from engine.streams.put import Put
    from engine.streams.rows import Failed, Keyed, Revised, RowMisfit, StageError
    from engine.streams.streams import KeyedStream, RevisedStage, RevisedStream, Sink, Stage, Stream, merge
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.streams.arguments": "RowCall SinkOptions StageOptions",
            "engine.streams.flow": "Flow SourceOptions",
            "engine.streams.json_rows": "JsonOf json_of",
            "engine.streams.put": "Put",
            "engine.streams.rows": "Failed Keyed Revised RowMisfit StageError",
            "engine.streams.streams": "KeyedStream RevisedStage RevisedStream Sink Stage Stream merge",
        },
    )

__all__ = [
    "Failed",
    "Flow",
    "JsonOf",
    "Keyed",
    "KeyedStream",
    "Put",
    "Revised",
    "RevisedStage",
    "RevisedStream",
    "RowCall",
    "RowMisfit",
    "Sink",
    "SinkOptions",
    "SourceOptions",
    "Stage",
    "StageError",
    "StageOptions",
    "Stream",
    "json_of",
    "merge",
]
