"""Named integer codes that Python and C exchange. A test compares them with the `.pxd` files."""

from enum import IntEnum


class BoltOutcome(IntEnum):
    """Result of a bolt's burst."""

    EMPTY = 0
    """No input waits."""
    MORE = 1
    """More inputs wait, but other actors run first."""
    STOPPED = 2
    """A full mailbox stops the task."""
    RETURNED = 3
    """A call returned an object other than None, such as a coroutine or a generator."""
    CONTROL = 4
    """The next input is a control tuple."""


class SpoutOutcome(IntEnum):
    """Result of a spout's burst."""

    QUIET = 0
    """The spout is not polled before its next ack or fail, because it is inactive or has `max_spout_pending` open trees."""
    POLL_AGAIN = 1
    """The turn is over. Poll again in the next turn."""
    HELD_UP = 2
    """A full mailbox stops the task."""
    AWAITABLE = 3
    """A call returned an object other than None, which is awaited."""
    NOTHING_NEW = 4
    """The last poll emitted nothing."""
    GAVE_WAY = 5
    """Bolts are behind, so the spout lets them run first."""


class Choice(IntEnum):
    """Method by which an outlet chooses its targets. Each grouping has one."""

    SHUFFLE = 0
    BY_FIELDS = 1
    TO_ALL = 2
    TO_FIRST = 3
    DIRECT = 4
    PARTIAL_KEY = 5
    LEAST_LOADED = 6
    CUSTOM = 7


class Signal(IntEnum):
    """Kind of a signal between a task and an acker."""

    # to an acker
    INIT = 1
    ACK = 2
    FAIL = 3
    RESET = 4
    DROP = 5
    ROTATE = 6
    OWN_CLOCK = 7
    # to a spout task
    ACKED = 16
    FAILED = 17
    ACKER_DIED = 18
    SETTLED_AT = 19
    REPLY = 20
    RELEASED = 21
