"""`FrameSize` bounds the frames between a run and its children by bytes."""

from typing import Final

FRAME_BYTES: Final = 1 << 18
"""Bytes of a frame. A frame of one row may have more. The loop needs about half a millisecond for them (BP-4)."""
STATE_ROWS_PER_FRAME: Final = 1000
"""Most rows or changes of a state in one frame."""
_FIRST_ROW_BYTES: Final = 1 << 16
"""Estimate before the first frame. The frames of small rows double until they have their most rows."""


class FrameSize:
    """Number of rows of the next frame, by the bytes of the earlier ones. It follows larger rows at once, and smaller ones slowly."""

    def __init__(self, most_rows: int) -> None:
        self._most_rows = most_rows
        self._row_bytes = float(_FIRST_ROW_BYTES)
        self.rows = min(most_rows, FRAME_BYTES // _FIRST_ROW_BYTES)

    def note(self, rows: int, length: int) -> None:
        """Note a frame that has been sent."""
        row_bytes = length / rows
        self._row_bytes = max(row_bytes, (self._row_bytes + row_bytes) / 2)
        self.rows = min(self._most_rows, int(FRAME_BYTES / self._row_bytes) or 1)
