"""The session with ZooKeeper: kazoo has threads of its own, and what they hear is told to the loop; every call has a time limit.

A call that was given up, since it took too long or its connection was cut, may still be done, whenever the network likes. Who writes
sees to it that it does no harm then.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from kazoo.interfaces import IAsyncResult
from kazoo.security import CREATOR_ALL_ACL

from engine.errors import StateError, StateUnavailable
from engine.state.zookeeper.names import ZooKeeperAddress

TIMEOUT_SECS: Final = 5.0
CLOSE_SECS: Final = 2.0
RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "max_delay": 2.0}
_KAZOO: Final = logging.getLogger("engine.state.kazoo")
"""What kazoo logs of a connection that is cut, those who wait for it say."""
_KAZOO.setLevel(logging.CRITICAL)


class ZooKeeperLink:
    """One session. `on_connected` hears of each connection, also the later ones, which may be of another session."""

    def __init__(self, address: ZooKeeperAddress, timeout_secs: float = TIMEOUT_SECS) -> None:
        self.address: Final = address
        self._timeout_secs = timeout_secs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = asyncio.Event()
        self.on_connected: Callable[[], None] = lambda: None
        self.client: Final = KazooClient(
            address.hosts,
            timeout=address.lease_secs,
            connection_retry=RECONNECT,
            default_acl=CREATOR_ALL_ACL if address.username else None,
            auth_data=[("digest", f"{address.username}:{address.password}")] if address.username else None,
            logger=_KAZOO,
        )

    def __str__(self) -> str:
        return f"ZooKeeper at {self.address}"

    async def open(self) -> None:
        """Connect; raise StateUnavailable where it cannot be reached."""
        self._loop = asyncio.get_running_loop()
        self.client.add_listener(self._hear)
        self.client.start_async()
        try:
            async with asyncio.timeout(self._timeout_secs):
                await self._connected.wait()
        except TimeoutError:
            raise unreached(str(self), self._timeout_secs) from None

    async def close(self) -> None:
        """End the session, and with it what it holds; a server that does not answer is not waited for."""
        self.client.remove_listener(self._hear)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            with suppress(Exception):  # whatever the other side says to it, or does not
                self.client.stop()
                self.client.close()
            tell(loop, ended.set)

        threading.Thread(target=end, name="zookeeper-close", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECS):
                await ended.wait()

    @property
    def session(self) -> int | None:
        """The number of the session; None while there is no connection."""
        known: tuple[int, bytes] | None = self.client.client_id
        return None if known is None else known[0]

    def _hear(self, state: str) -> None:
        """In a thread of kazoo's: the connection is there, or gone."""
        assert self._loop is not None
        if state == KazooState.CONNECTED:
            tell(self._loop, self._note_connected)

    def _note_connected(self) -> None:
        self._connected.set()
        self.on_connected()

    async def call(self, send: Callable[[], IAsyncResult]) -> Any:
        """Return what a call gives; raise StateError, StateUnavailable, or one of EXPECTED."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        send().rawlink(lambda result: tell(loop, lambda: _settle(future, result)))
        try:
            async with asyncio.timeout(self._timeout_secs):
                return await future
        except TimeoutError:
            raise unreached(str(self), self._timeout_secs) from None
        except EXPECTED:
            raise
        except KazooException as error:
            raise meaning(error, str(self)) from error

    async def transaction(self, fill: Callable[[TransactionRequest], object]) -> list[Any]:
        """Do several things at once, or none; return what each gives. Raises as `call`."""
        request = self.client.transaction()
        fill(request)
        results: list[Any] = await self.call(request.commit_async)
        for error in results:
            if isinstance(error, Exception) and not isinstance(error, (RolledBackError, RuntimeInconsistency)):
                if isinstance(error, EXPECTED):
                    raise error
                raise meaning(error, str(self))
        return results

    async def make(self, path: str, value: bytes) -> None:
        """Make a node, and those above it, where it is not there."""
        above = path.rpartition("/")[0]
        try:
            await self.call(lambda: self.client.ensure_path_async(above))
            await self.call(lambda: self.client.create_async(path, value))
        except EXPECTED:
            return

    async def get(self, path: str) -> tuple[bytes, int]:
        """Return the value of a node and its version, no older than what anybody was told before; raise NoNodeError."""
        await self.call(lambda: self.client.sync_async(path))
        value, stat = await self.call(lambda: self.client.get_async(path))
        return value, stat.version


def tell(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and with it who would listen
        loop.call_soon_threadsafe(what)


def _settle(future: "asyncio.Future[Any]", result: IAsyncResult) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


EXPECTED: Final = (exceptions.NoNodeError, exceptions.NodeExistsError, exceptions.NotEmptyError, exceptions.BadVersionError)
"""What a node was found to be otherwise than was thought: for who asked to decide."""

_UNREACHED: Final = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.UnknownSessionError,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
)
_BUSY: Final = (exceptions.ThrottledOpError, exceptions.NotReadOnlyCallError, exceptions.SystemZookeeperError)
_FORBIDDEN: Final = (exceptions.NoAuthError, exceptions.AuthFailedError, exceptions.InvalidACLError)


def unreached(where: str, timeout_secs: float) -> StateUnavailable:
    """Return what to raise where nothing answers in time."""
    return StateUnavailable(f"{where} did not answer within {timeout_secs:g} s", hint="Does it run, and are host and port right?")


def meaning(error: Exception, where: str) -> StateError:
    """Return what to raise instead of an error; `where` names the server."""
    said = _said(error)
    if isinstance(error, _UNREACHED):
        return StateUnavailable(f"{where}: the connection was lost: {said}", hint="Does it run, and can it be reached?")
    if isinstance(error, exceptions.QuotaExceededError):
        return StateUnavailable(f"{where}: its quota for these nodes is used up", hint="setquota raises it.")
    if isinstance(error, _BUSY):
        return StateUnavailable(f"{where} cannot write now: {said}", hint="It has too much to do, or no majority of its servers is there.")
    if isinstance(error, _FORBIDDEN):
        return StateError(
            f"{where}: its user may not do this: {said}",
            hint="Name the user who made the nodes: zookeeper://user:password@host:port/path; getAcl tells who may.",
        )
    return StateError(f"{where}: {said}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ").removesuffix(": ()")
