"""Event time: the settings of a source, and the decisions about watermarks, as plain objects (ET-1 to ET-6).

A watermark W = t says that no later row on time has a time before t. Times are microseconds since 1970.
"""

from engine.event_time.settings import EventTime, MadeRows, RowParts
from engine.event_time.source_clock import PartitionView, SourceClock
from engine.event_time.watermark import END_OF_TIME, NO_WATERMARK, Mark, TaskWatermark

__all__ = ["END_OF_TIME", "NO_WATERMARK", "EventTime", "MadeRows", "Mark", "PartitionView", "RowParts", "SourceClock", "TaskWatermark"]
