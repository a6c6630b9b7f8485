"""The compiled part of the engine, and the only place that imports it.

What stands here is all that the rest may use of `_native`; each class is documented, and typed, where it is written.
"""

try:
    from _native.ack_ledger import LIFETIME, AckLedger
    from _native.acker_core import AckerCore
    from _native.batch_feed import BatchEmitter, BatchFeed, BatchPart, DigestingEmitter, reply
    from _native.bolt_core import BoltCore
    from _native.bolt_emitter import BoltEmitter
    from _native.column_buffers import boolean_buffers, date_buffers, double_buffers, integer_buffers, string_buffers, timestamp_buffers
    from _native.dispatch import Outlet, OutStream, Pulse
    from _native.edge_ids import EdgeIds
    from _native.flow import DonePrefix, FlowFeed, Pack, PackDelivery, TaskChooser, TaskWindow
    from _native.histogram import LatencyHistogram
    from _native.layers import Layers
    from _native.mailbox import Emitter, Mailbox, SignalRing
    from _native.offset_window import Entry, OffsetWindow, settle
    from _native.record_feed import RecordFeed, Rotation
    from _native.rotating_map import RotatingMap
    from _native.spout_core import SpoutCore
    from _native.spout_emitter import SpoutEmitter
    from _native.stable_hash import key_group, stable_hash
    from _native.task_core import TaskCore
    from _native.timed_steps import StepTimer
    from _native.tuples import Source, Tuple, make_tuple
except ImportError as error:  # a missing build must not look like a missing package
    raise ImportError(f"the compiled part of the engine does not load ({error}). Build it: pip install -e . (or: make build)") from error

from engine.kernel.codes import BoltOutcome, Choice, Signal, SpoutOutcome

__all__ = [
    "LIFETIME",
    "AckLedger",
    "AckerCore",
    "BatchEmitter",
    "BatchFeed",
    "BatchPart",
    "BoltCore",
    "BoltEmitter",
    "BoltOutcome",
    "Choice",
    "DigestingEmitter",
    "DonePrefix",
    "EdgeIds",
    "Emitter",
    "Entry",
    "FlowFeed",
    "LatencyHistogram",
    "Layers",
    "Mailbox",
    "OffsetWindow",
    "OutStream",
    "Outlet",
    "Pack",
    "PackDelivery",
    "Pulse",
    "RecordFeed",
    "RotatingMap",
    "Rotation",
    "Signal",
    "SignalRing",
    "Source",
    "SpoutCore",
    "SpoutEmitter",
    "SpoutOutcome",
    "StepTimer",
    "TaskChooser",
    "TaskCore",
    "TaskWindow",
    "Tuple",
    "boolean_buffers",
    "date_buffers",
    "double_buffers",
    "integer_buffers",
    "key_group",
    "make_tuple",
    "reply",
    "settle",
    "stable_hash",
    "string_buffers",
    "timestamp_buffers",
]
