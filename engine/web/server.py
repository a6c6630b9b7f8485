"""Serves a run over HTTP on the run's own loop, and ends with it (WEB-4)."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import ASGIApp, Scope
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from engine.cancellation import cancel_and_wait
from engine.forks import unshare
from engine.log import EngineLogger
from engine.runtime.run import Run
from engine.web.access import Access
from engine.web.address import Address, bind, parse_address
from engine.web.application import make_application, make_site
from engine.web.read_budget import ACCEPTING, TURN_SECS
from engine.web.site import Site

MOST_CONNECTIONS: Final = 256
"""Connections at the same time, so that readers cannot use up the files of the process. A further one takes the place of one of the host
that has the most of them, or is closed at once if its own host has the most."""
HEAD_SECS: Final = 15.0
"""Time for a client to send the head of a request."""
TAKE_SECS: Final = 30.0
"""Time for a client to take what was sent to it."""
SHUTDOWN_SECS: Final = 0.8
"""Time for readers to take the last answer."""
ACCEPT_PAUSE_SECS: Final = 1.0
"""Pause after a connection that cannot be accepted, for example because the process has no more files or memory."""
LOGGER: Final = EngineLogger("engine.web")
_SILENT: Final = logging.Logger("uvicorn", logging.CRITICAL + 1)
"""Logger for malformed requests, because any client could fill the log with them. It has no handlers and no parent."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs."""

    address: Address
    """Host as it was given, and the port that is open."""

    @property
    def url(self) -> str:
        """URL for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address.host, self.address.host)
        return f"http://{Address(host, self.address.port)}/"


@asynccontextmanager
async def serve(
    run: Run,
    address: str,
    *,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    callable_inlets: Iterable[str] = (),
    logger: str = "engine",
) -> AsyncIterator[Serving]:
    """Serve the page of a run and its HTTP interface inside an `async with`, also while the run waits on standby.

    address: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; `:8080` and `8080` are on 127.0.0.1. Port 0 is a free port.
    The other parameters are those of `app`. Raises ConfigError if the address is wrong or its port cannot be opened. Leaving the block
    sends the last sample to all readers, and takes at most about a second.

    >>> import asyncio, engine
    >>> from engine.web import serve
    >>> builder = engine.TopologyBuilder("example")
    >>> _ = builder.set_spout("in", lambda: engine.Inlet("name"))
    >>> async def main():
    ...     run = engine.run(builder.build())
    ...     async with serve(run, "127.0.0.1:0") as serving, run:
    ...         return serving.url.startswith("http://127.0.0.1:")
    >>> asyncio.run(main())
    True
    """
    wanted = parse_address(address)
    listening = await bind(wanted)
    try:
        host, port = listening.getsockname()[:2]
        access = Access(token=token, allowed_hosts=allowed_hosts, bound_hosts=(wanted.host, host))
        site = make_site(run, access, callable_inlets, logger)
        server = _Server(make_application(site), site)
        site.drop_connection = server.drop_connection
        server.start(listening)
    except BaseException:
        listening.close()
        raise
    has_failed = False
    try:
        site.sampler.start()
        yield Serving(Address(wanted.host, port))
    except Exception:
        has_failed = True
        raise
    finally:
        try:
            await site.sampler.end(has_failed=has_failed)
        finally:
            await server.close()


class _Server:
    """Accepts connections, and closes all of them within SHUTDOWN_SECS at the end. Uses uvicorn's protocol, and not its `Server`.

    uvicorn's `Server` handles signals, which belong to the program (RUN-5), and waits for its readers. The loop's own server accepts
    connections without a pause, so this one accepts them itself, each in its turn (WEB-3).
    """

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self.budget = site.budget
        self.access = site.access
        self._state = ServerState()
        self.all_gone = asyncio.Event()
        self.is_closing = False
        self._config = Config(
            application, http="h11", ws="none", lifespan="off", log_config=None, access_log=True, proxy_headers=False, server_header=False
        )
        self._config.load()

    def start(self, listening: socket.socket) -> None:
        """Begin to accept connections. `close` closes the socket."""
        self._listening = listening
        self._accepting = asyncio.get_running_loop().create_task(self._accept_all(), name="connections to the page of a run")

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        told: int | None = None
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except ConnectionAbortedError:  # the client has gone
                continue
            except OSError as error:  # no pause would block the loop, because the next call fails at once
                if error.errno != told:
                    text = "the page of the run cannot accept connections: %s. It tries again every %g s."
                    LOGGER.warning(text, error.strerror, ACCEPT_PAUSE_SECS)
                told = error.errno
                await asyncio.sleep(ACCEPT_PAUSE_SECS)
                continue
            told = None
            try:
                await self.budget.turn(ACCEPTING)
                await loop.connect_accepted_socket(lambda: _Connection(self._config, self._state, self), accepted)
            except OSError:  # the client has gone
                accepted.close()
            except BaseException:
                accepted.close()
                raise

    def close_one_of_too_many(self, latest: "_Connection") -> None:
        """Close a connection of the host that has the most of them: the latest one, if it is from this host."""
        counts = Counter(connection.host for connection in self._connections())
        greediest = max(self._connections(), key=lambda connection: (counts[connection.host], connection is latest))
        greediest.transport.abort()

    def drop_connection(self, scope: Scope) -> None:
        """Close the connection of a request at once, with all that is not sent yet."""
        for connection in tuple(self._connections()):
            if connection.client is not None and tuple(connection.client) == tuple(scope.get("client") or ()):
                connection.transport.abort()

    async def close(self) -> None:
        """Close all connections: idle ones at once, and busy ones after their answer or after SHUTDOWN_SECS."""
        self.is_closing = True
        await cancel_and_wait((self._accepting,))
        self._listening.close()
        self.budget.lift()
        for connection in tuple(self._connections()):
            connection.end()
        try:
            if self._state.connections:
                self.all_gone.clear()
                waiting = asyncio.ensure_future(self.all_gone.wait())
                await asyncio.wait((waiting,), timeout=SHUTDOWN_SECS)
                waiting.cancel()
        finally:
            for connection in tuple(self._connections()):
                connection.transport.abort()
            await cancel_and_wait(tuple(self._state.tasks))

    def _connections(self) -> "Iterable[_Connection]":
        return (each for each in self._state.connections if isinstance(each, _Connection))


class _Connection(H11Protocol):
    """One connection.

    A client is disconnected if it does not send a whole head in HEAD_SECS, or does not take its answer in TAKE_SECS. So are too many
    clients. Parsing is charged to the account of all readers, and while this is in debt, nothing more is read. A change with the token
    gets back what its connection has paid.
    """

    def __init__(self, config: Config, state: ServerState, owner: _Server) -> None:
        super().__init__(config, state, {})
        self.logger = _SILENT
        self.access_log = False
        self._owner = owner
        self._head_timer: asyncio.TimerHandle | None = None
        self._take_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None
        self._paid_secs = TURN_SECS
        """What this connection has paid since it was accepted, or since the last change with the token."""
        self._is_authorized = False
        """True if the latest request is a change with the token."""

    @property
    def host(self) -> str | None:
        """Address of the client, without its port."""
        return None if self.client is None else self.client[0]

    def fileno(self) -> int:
        """Return the descriptor of the socket, -1 if the connection is lost. The number may then belong to another file."""
        accepted: socket.socket | None = self.transport.get_extra_info("socket") if self in self.connections else None
        return -1 if accepted is None else accepted.fileno()

    @property
    def is_idle(self) -> bool:
        """True while no request is answered."""
        cycle: Any = self.cycle  # uvicorn's type leaves out that there is none before the first request
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Accept the connection, unless there are too many, or the server closes."""
        super().connection_made(transport)
        unshare(self)
        transport.set_write_buffer_limits(high=0)  # so that pause_writing is called as soon as the client leaves something untaken
        if self._owner.is_closing:
            transport.abort()
            return
        self._head_timer = self.loop.call_later(HEAD_SECS, transport.abort)
        if len(self.connections) > MOST_CONNECTIONS:
            self._owner.close_one_of_too_many(self)

    def data_received(self, data: bytes) -> None:
        """Parse the data. Limit the time for the head of the next request."""
        cycle, began = self.cycle, self._owner.budget.cpu_secs()
        super().data_received(data)
        if self.cycle is not cycle:
            self._is_authorized = self._owner.access.is_authorized_change(self.scope["method"], self.headers)
        self._pay(self._owner.budget.cpu_secs() - began)
        if not self.is_idle:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECS, self.transport.abort)

    def _pay(self, secs: float) -> None:
        """Charge the time that parsing took. Read nothing more while all readers together are in debt."""
        budget = self._owner.budget
        if self._is_authorized:
            budget.charge(-self._paid_secs)
            self._paid_secs = 0.0
            return
        budget.charge(secs)
        self._paid_secs += secs
        debt_secs = budget.debt_secs()
        if debt_secs > 0 and self._pause_timer is None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._pause_timer = self.loop.call_later(debt_secs, self._read_on)

    def _read_on(self) -> None:
        self._pause_timer = None
        if not self.transport.is_closing() and not self.flow.read_paused:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Limit the time until the client has taken everything, also if the connection is closed meanwhile."""
        super().pause_writing()
        self._stop_take_timer()
        self._take_timer = self.loop.call_later(TAKE_SECS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, because the client has taken everything."""
        self._stop_take_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        self._stop_take_timer()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        super().connection_lost(exc)
        if not self.connections:
            self._owner.all_gone.set()

    def end(self) -> None:
        """Close the connection now if it is idle, else after its answer."""
        if self.is_idle:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_take_timer(self) -> None:
        if self._take_timer is not None:
            self._take_timer.cancel()
            self._take_timer = None
