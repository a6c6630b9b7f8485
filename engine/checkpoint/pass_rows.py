"""`PassRows`: how many rows a source task emits in the passes of an interval (EO-6)."""


class PassRows:
    """The rows of the passes since the last commit, counted by the emits of the task in its life."""

    def __init__(self) -> None:
        self.began = 0
        """Emits until the last commit or rollback."""
        self.at_barrier = 0
        """Emits until the last barrier."""
        self.failed_pass = 0
        """Rows of the pass that this one repeats, with the skipped ones, up to its barrier if it had one. 0: no pass has failed."""
        self.to_cover = 0
        """Rows that the failed passes have emitted, and that no commit has covered yet."""

    def begin_pass(self, emitted: int, skipped: int, skipped_before: int) -> None:
        """Begin a pass. skipped: rows that the one before has skipped. skipped_before: before its barrier."""
        self.to_cover = max(self.to_cover, emitted - self.began)
        has_sent_barrier = self.at_barrier > self.began
        self.failed_pass = self.at_barrier - self.began + skipped_before if has_sent_barrier else emitted - self.began + skipped
        self.began = self.at_barrier = emitted

    def left_to_cover(self, skipped_before: int) -> int:
        """Return the rows of the failed passes that a commit of the last barrier does not cover, because a source may begin slowly."""
        return max(0, self.to_cover - (self.at_barrier - self.began + skipped_before))

    def note_committed(self, skipped_before: int) -> int:
        """Begin to count anew at the barrier. Return the number of emits that are committed."""
        committed = self.at_barrier - self.began
        self.to_cover, self.began, self.failed_pass = self.left_to_cover(skipped_before), self.at_barrier, 0
        return committed
