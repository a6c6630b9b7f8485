"""Exports the compiled part of the engine. No other module of the engine imports `_native`.

Other packages may use only the names in `__all__`. The stubs (`.pyi`) in `_native` have the types and docstrings of these names.
"""

from engine.installation import build_hint

try:
    from _native.acker import AckerCore, AckLedger
    from _native.aging import LIFETIME
    from _native.batch import (
        BatchEmitter,
        BatchFeed,
        DigestingEmitter,
        TaskBatch,
        emit_batch_rows,
        post_control,
        post_rows,
        reply,
        take_runs,
    )
    from _native.bolt import BoltCore
    from _native.bolt_collector import BoltCollector
    from _native.burst import Burst
    from _native.columns import (
        binary_buffers,
        boolean_buffers,
        date_buffers,
        double_buffers,
        float_buffers,
        integer_buffers,
        string_buffers,
        timestamp_buffers,
    )
    from _native.flow import DonePrefix, FlowFeed, Pack, PackDelivery, TaskChooser, TaskWindow
    from _native.hash import key_group, stable_hash
    from _native.held_call import HeldCall, failed_calls, note_failed_call, requeue
    from _native.ids import EdgeIds
    from _native.kafka import Entry, PartitionOffsets, RecordFeed, RoundRobin, mark_all_done, mark_done
    from _native.marks import emit_mark, is_mark_due, keep_mark, put_back_marks, requeue_marks, take_due_marks
    from _native.named_tuples import as_class, named_tuples
    from _native.nested import decimal_values, list_parts, map_parts, python_values, struct_parts, values_of_classes
    from _native.process import (
        ack_rows,
        are_plain,
        emit_rows,
        exit_at_hangup,
        first_waiting,
        kind_of,
        origin_of,
        post_numbered,
        rows_of,
        take_emits,
        take_verdicts,
    )
    from _native.queues import Backpressure, Mailbox, SignalRing
    from _native.records import FetchedRecord, RecordReader, leader_epochs
    from _native.row_stamp import PartitionTime, RowStamp, SourceTimes, span_of
    from _native.spout import SpoutCore
    from _native.spout_collector import ROWS_PER_TURN, SpoutCollector
    from _native.state import Layers, LayerWalk, free_entries
    from _native.tables import RotatingMap
    from _native.task import BoltBacklog, Outlet, OutStream, Targets, TaskCore
    from _native.timing import LatencyHistogram, StepTimer
    from _native.tuples import Source, Tuple, make_tuple, treat_as_atoms
except ImportError as error:  # a missing build must not look like a missing package
    raise ImportError(f"the compiled part of the engine does not load ({error}). {build_hint()}") from error

from engine.kernel.codes import BoltOutcome, Choice, Signal, SpoutOutcome

__all__ = [
    "LIFETIME",
    "ROWS_PER_TURN",
    "AckLedger",
    "AckerCore",
    "Backpressure",
    "BatchEmitter",
    "BatchFeed",
    "BoltBacklog",
    "BoltCollector",
    "BoltCore",
    "BoltOutcome",
    "Burst",
    "Choice",
    "DigestingEmitter",
    "DonePrefix",
    "EdgeIds",
    "Entry",
    "FetchedRecord",
    "FlowFeed",
    "HeldCall",
    "LatencyHistogram",
    "LayerWalk",
    "Layers",
    "Mailbox",
    "OutStream",
    "Outlet",
    "Pack",
    "PackDelivery",
    "PartitionOffsets",
    "PartitionTime",
    "RecordFeed",
    "RecordReader",
    "RotatingMap",
    "RoundRobin",
    "RowStamp",
    "Signal",
    "SignalRing",
    "Source",
    "SourceTimes",
    "SpoutCollector",
    "SpoutCore",
    "SpoutOutcome",
    "StepTimer",
    "Targets",
    "TaskBatch",
    "TaskChooser",
    "TaskCore",
    "TaskWindow",
    "Tuple",
    "ack_rows",
    "are_plain",
    "as_class",
    "binary_buffers",
    "boolean_buffers",
    "date_buffers",
    "decimal_values",
    "double_buffers",
    "emit_batch_rows",
    "emit_mark",
    "emit_rows",
    "exit_at_hangup",
    "failed_calls",
    "first_waiting",
    "float_buffers",
    "free_entries",
    "integer_buffers",
    "is_mark_due",
    "keep_mark",
    "key_group",
    "kind_of",
    "leader_epochs",
    "list_parts",
    "make_tuple",
    "map_parts",
    "mark_all_done",
    "mark_done",
    "named_tuples",
    "note_failed_call",
    "origin_of",
    "post_control",
    "post_numbered",
    "post_rows",
    "put_back_marks",
    "python_values",
    "reply",
    "requeue",
    "requeue_marks",
    "rows_of",
    "span_of",
    "stable_hash",
    "string_buffers",
    "struct_parts",
    "take_due_marks",
    "take_emits",
    "take_runs",
    "take_verdicts",
    "timestamp_buffers",
    "treat_as_atoms",
    "values_of_classes",
]
