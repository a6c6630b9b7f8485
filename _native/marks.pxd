"""Marks: the watermarks of event time, which travel like rows (ET-1)."""
from _native.bolt cimport BoltCore

cpdef bint is_mark_due(BoltCore core) except -1
