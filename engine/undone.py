"""`Undone` counts the messages that a run has taken from its sources and not processed (RUN-4)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Undone:
    """Messages that a run has taken and left undone. True if there are some.

    >>> print(Undone(open=1, failed=2_000).describe())
    2,000 messages failed for good, 1 message was still open
    """

    open: int = 0
    """Messages whose tree was open at the end, or that failed and waited for a retry. Their source may replay them in the next run."""
    failed: int = 0
    """Messages that failed, and that their spout has given up."""
    unfinished: str = ""
    """Work that a drain left when its time was over. Empty if it was in time."""
    failing: str = ""
    """The batch that could not be committed, and why. Empty if there is none."""

    owed: int = 0
    """Rows of exact spouts that failed and wait for a retry. The next run begins with them."""

    def __bool__(self) -> bool:
        return bool(self.open or self.failed or self.unfinished or self.failing or self.owed)

    def __add__(self, other: "Undone") -> "Undone":
        return Undone(
            self.open + other.open,
            self.failed + other.failed,
            self.unfinished or other.unfinished,
            self.failing or other.failing,
            self.owed + other.owed,
        )

    def describe(self) -> str:
        """Return the numbers as text, without a full stop."""
        parts = [f"{_messages(self.failed)} failed for good"] if self.failed else []
        if self.open:
            parts.append(f"{_messages(self.open)} {'was' if self.open == 1 else 'were'} still open")
        if self.owed:
            parts.append(f"{_messages(self.owed)} failed and will be tried again by the next run")
        if self.failing:
            parts.append(self.failing)
        if self.unfinished:
            parts.append(f"the drain ran out of time ({self.unfinished})")
        return ", ".join(parts)


def _messages(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"
