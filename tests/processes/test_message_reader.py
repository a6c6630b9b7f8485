"""The run gets the messages of a child in order, also if one has to be taken apart."""

import pickle
from collections import deque
from typing import Any

import pytest

from engine.runtime.processes.message_reader import MessageReader
from tests.processes.bolts import Unreadable


class _End:
    """A child that takes each message apart into its number, when it comes to it."""

    def __init__(self) -> None:
        self.read: list[Any] = []
        self.returned: deque[bytes] = deque()
        self.reader = MessageReader(self.read.append, self.returned.append)

    def send(self, number: int, *values: object) -> bytes:
        frame = pickle.dumps(("work", number, *values))
        self.reader.read(frame)
        return frame

    def answer(self, number: int) -> None:
        self.returned.popleft()
        self.reader.read(pickle.dumps(("apart", "work_apart", number)))


@pytest.mark.guarantee("PR-1", "GRP-4")
def test_later_messages_wait_for_one_that_is_taken_apart() -> None:
    end = _End()
    end.send(1)
    first, _ = end.send(2, Unreadable()), end.send(3)
    end.send(4, Unreadable())
    end.send(5)
    assert end.read == [("work", 1)]
    assert end.returned[0] == first
    end.answer(2)
    assert end.read == [("work", 1), ("work_apart", 2), ("work", 3)]
    end.send(6)
    end.answer(4)
    end.send(7)
    assert end.read[3:] == [("work_apart", 4), ("work", 5), ("work", 6), ("work", 7)]
