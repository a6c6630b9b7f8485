"""`MessageReader` loads the messages of a child in the order in which the child has sent them."""

import pickle
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

Message: TypeAlias = tuple[Any, ...]


class MessageReader:
    """Loads messages. The child takes apart a message with a value that cannot be loaded here, and later messages wait for that (PR-1).

    Only this end can find out whether it can load a value, because only the child may know its class. And only the child can say to which
    row the value belongs, because a pickle has no parts that can be loaded alone.
    """

    def __init__(self, on_message: Callable[[Message], None], send_back: Callable[[bytes], None]) -> None:
        """send_back: returns a frame to the child, which answers with the message `("apart", *parts)`, in the order of the frames."""
        self._on_message = on_message
        self._send_back = send_back
        self._later: deque[Message | None] = deque()
        """Messages behind one that is taken apart. None stands for such a message. A child sends nothing more while it is in a call."""

    def read(self, frame: bytes) -> None:
        """Load the message of a frame and pass it on, when all earlier ones are."""
        try:
            message: Message = pickle.loads(frame)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - code of a value; a SystemExit of it must not end the program
            self._later.append(None)
            self._send_back(frame)
            return
        if not self._later:
            self._on_message(message)
        elif message[0] == "apart":
            self._later[self._later.index(None)] = message[1:]
            while self._later and (next_one := self._later[0]) is not None:
                self._later.popleft()
                self._on_message(next_one)
        else:
            self._later.append(message)
