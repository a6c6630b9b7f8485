"""Small numbers that Python and C exchange, by name. A test compares them with the `.pxd` files."""

from enum import IntEnum


class BoltOutcome(IntEnum):
    """Why a bolt's burst ended."""

    EMPTY = 0
    MORE = 1
    STOPPED = 2
    RETURNED = 3
    CONTROL = 4


class SpoutOutcome(IntEnum):
    """Why a spout's burst ended."""

    QUIET = 0
    POLL_AGAIN = 1
    HELD_UP = 2
    AWAITABLE = 3
    NOTHING_NEW = 4
    GAVE_WAY = 5


class Choice(IntEnum):
    """How an outlet chooses among its targets."""

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

    INIT = 1
    ACK = 2
    FAIL = 3
    RESET = 4
    DROP = 5
    ROTATE = 6
    OWN_CLOCK = 7
    ACKED = 16
    FAILED = 17
    ACKER_DIED = 18
    SETTLED_AT = 19
    REPLY = 20
