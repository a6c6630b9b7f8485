"""A standalone cluster that has forgotten its application is noticed (SP-5)."""

import socket
import threading
from collections.abc import Iterator

import pytest

from spark_bridge.process.child.diagnosis import likely_cause
from spark_bridge.process.child.master_watch import LOOKS, MasterWatch
from tests.patience import PATIENCE_SECS

pytestmark = pytest.mark.guarantee("SP-5")


class Master:
    """Accepts one connection, and closes it when it is told to."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()

    def accept(self) -> socket.socket:
        self._listening.settimeout(PATIENCE_SECS)
        connection, _ = self._listening.accept()
        return connection

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def masters() -> Iterator[list[Master]]:
    both = [Master(), Master()]
    yield both
    for each in both:
        each.close()


class Watched:
    """A watch in a thread, with a list of the numbers of executors that it will see."""

    def __init__(self, masters: list[Master], executors: list[int]) -> None:
        self.left = executors
        self.losses: list[str] = []
        self._watch = MasterWatch([each.address for each in masters], self._executors, self.losses.append, look_secs=0.001)
        self._thread = threading.Thread(target=self._watch.watch)
        self._thread.start()

    def _executors(self) -> int:
        if not self.left:
            raise ConnectionError("the session has ended")
        return self.left.pop(0)

    def ended(self) -> list[str]:
        """Return the losses, after the watch has ended."""
        self._thread.join(PATIENCE_SECS)
        assert not self._thread.is_alive()
        return self.losses


def test_a_lost_master_without_executors_is_a_loss(masters: list[Master]) -> None:
    watched = Watched(masters[:1], [2, 1] + [0] * LOOKS + [5])
    masters[0].accept().close()
    [text] = watched.ended()
    assert text == f"its master (127.0.0.1:{masters[0].address[1]}) went away, and no executors are left"
    assert watched.left == [5]
    assert "Start the master again" in str(likely_cause(text, "")[1])


def test_executors_that_stay_or_come_back_are_no_loss(masters: list[Master]) -> None:
    watched = Watched(masters[:1], [2] + [0] * (LOOKS - 1) + [1, 1])
    masters[0].accept().close()
    assert not watched.ended()


def test_all_masters_must_be_lost(masters: list[Master]) -> None:
    watched = Watched(masters, [0] * LOOKS)
    first, second = masters[0].accept(), masters[1].accept()
    first.close()
    assert len(watched.left) == LOOKS
    second.close()
    assert len(watched.ended()) == 1


def test_a_master_that_was_not_reached_at_first_is_no_lost_one(masters: list[Master]) -> None:
    """Given a standby that starts later and lives, then a time without executors is no loss."""
    starts_later = Master()
    address = starts_later.address
    starts_later.close()
    watched = Watched([masters[0], starts_later], [1] * 1_000_000 + [0] * LOOKS)
    masters[0].accept().close()
    listening = socket.create_server(address)
    try:
        listening.settimeout(PATIENCE_SECS)
        connection, _ = listening.accept()
        watched.left[:] = [0] * LOOKS
        assert not watched.losses
        assert len(watched.left) == LOOKS
    finally:
        listening.close()
    connection.close()
    assert len(watched.ended()) == 1
