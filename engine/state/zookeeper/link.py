"""The session with ZooKeeper. Threads of kazoo pass their results to the event loop, and every call has a time limit.

An abandoned call, after a timeout or a lost connection, may still take effect much later. The callers make such late writes harmless.
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
"""Log of kazoo, silenced because the waiting callers report lost connections."""
_KAZOO.setLevel(logging.CRITICAL)


class ZooKeeperLink:
    """One session. Calls `on_connected` after each connect, also for a new session."""

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
        """Connect. Raises StateUnavailable if ZooKeeper cannot be reached."""
        self._loop = asyncio.get_running_loop()
        self.client.add_listener(self._note_state)
        self.client.start_async()
        try:
            async with asyncio.timeout(self._timeout_secs):
                await self._connected.wait()
        except TimeoutError:
            raise timeout_error(str(self), self._timeout_secs) from None

    async def close(self) -> None:
        """End the session and its ephemeral nodes. Waits at most CLOSE_SECS for the server."""
        self.client.remove_listener(self._note_state)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            with suppress(Exception):  # the session ends in any case
                self.client.stop()
                self.client.close()
            call_in_loop(loop, ended.set)

        threading.Thread(target=end, name="zookeeper-close", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECS):
                await ended.wait()

    @property
    def session(self) -> int | None:
        """The number of the session, None without a connection."""
        known: tuple[int, bytes] | None = self.client.client_id
        return None if known is None else known[0]

    def _note_state(self, state: str) -> None:
        """Handle a change of the connection, in a thread of kazoo."""
        assert self._loop is not None
        if state == KazooState.CONNECTED:
            call_in_loop(self._loop, self._note_connected)

    def _note_connected(self) -> None:
        self._connected.set()
        self.on_connected()

    async def call(self, send: Callable[[], IAsyncResult]) -> Any:
        """Return the result of a call. Raises StateError, StateUnavailable, or one of EXPECTED."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        send().rawlink(lambda result: call_in_loop(loop, lambda: _settle(future, result)))
        try:
            async with asyncio.timeout(self._timeout_secs):
                return await future
        except TimeoutError:
            raise timeout_error(str(self), self._timeout_secs) from None
        except EXPECTED:
            raise
        except KazooException as error:
            raise translated_error(error, str(self)) from error

    async def transaction(self, fill: Callable[[TransactionRequest], object]) -> list[Any]:
        """Run several operations atomically, and return their results. Raises like `call`."""
        request = self.client.transaction()
        fill(request)
        results: list[Any] = await self.call(request.commit_async)
        for error in results:
            if isinstance(error, Exception) and not isinstance(error, (RolledBackError, RuntimeInconsistency)):
                if isinstance(error, EXPECTED):
                    raise error
                raise translated_error(error, str(self))
        return results

    async def make(self, path: str, value: bytes) -> None:
        """Create a node and its parents if needed."""
        above = path.rpartition("/")[0]
        try:
            await self.call(lambda: self.client.ensure_path_async(above))
            await self.call(lambda: self.client.create_async(path, value))
        except EXPECTED:
            return

    async def get(self, path: str) -> tuple[bytes, int]:
        """Return the newest value and version of a node. Raises NoNodeError."""
        await self.call(lambda: self.client.sync_async(path))
        value, stat = await self.call(lambda: self.client.get_async(path))
        return value, stat.version


def call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> None:
    """Call a function in the loop, from any thread. Do nothing if the loop is closed."""
    with suppress(RuntimeError):  # the loop is closed, so no task waits
        loop.call_soon_threadsafe(what)


def _settle(future: "asyncio.Future[Any]", result: IAsyncResult) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


EXPECTED: Final = (exceptions.NoNodeError, exceptions.NodeExistsError, exceptions.NotEmptyError, exceptions.BadVersionError)
"""Errors of a node in an unexpected state, which the caller handles."""

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


def timeout_error(where: str, timeout_secs: float) -> StateUnavailable:
    """Return the error for a call without an answer in time."""
    return StateUnavailable(f"{where} did not answer within {timeout_secs:g} s", hint="Check whether it runs, and host and port.")


def translated_error(error: Exception, where: str) -> StateError:
    """Return the StateError for an error of kazoo. where: the server, for messages."""
    said = _said(error)
    if isinstance(error, _UNREACHED):
        return StateUnavailable(f"{where}: the connection was lost: {said}", hint="Check whether it runs and can be reached.")
    if isinstance(error, exceptions.QuotaExceededError):
        return StateUnavailable(f"{where}: its quota for these nodes is exhausted", hint="Raise it with setquota.")
    if isinstance(error, _BUSY):
        return StateUnavailable(f"{where} cannot write now: {said}", hint="It is overloaded, or a majority of its servers is missing.")
    if isinstance(error, _FORBIDDEN):
        return StateError(
            f"{where}: its user may not do this: {said}",
            hint="Use the user that created the nodes: zookeeper://user:password@host:port/path. getAcl shows the permissions.",
        )
    return StateError(f"{where}: {said}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ").removesuffix(": ()")
