"""A run in another process, over its HTTP interface. Uses the standard library alone, one connection for each request."""

import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import click

from engine.checkpoint import CheckpointEntry
from engine.errors import EngineError
from engine.flow import FlowEntry
from engine.runtime.event_time_entry import EventTimeEntry
from engine.runtime.snapshot import Snapshot
from engine.runtime.snapshot_json import snapshot_from_dict
from engine.transactional import TransactionsEntry
from engine.version import __version__

TIMEOUT_SECS: Final = 5.0
"""Time for an answer, besides the time that a request asks the server to wait."""
SILENCE_SECS: Final = 60.0
"""Longest time without an event of a run."""
MOST_WAIT_SECS: Final = 10.0
"""Longest wait that the server accepts."""
MOST_ANSWER_BYTES: Final = 100_000_000
TOKEN_VARIABLE: Final = "ENGINE_HTTP_TOKEN"
_ENTRIES: Final = (CheckpointEntry, FlowEntry, TransactionsEntry, EventTimeEntry)
_VERSION: Final = "x-stormcell-version"
_BARE_PORT: Final = re.compile(r":?[0-9]{1,5}")


class RemoteError(EngineError):
    """A run elsewhere cannot be reached, or refuses a request. `status` is the HTTP status, None without an answer."""

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class RunGone(RemoteError):
    """No server answers at the address of a run."""


@dataclass(frozen=True, slots=True)
class AskedSnapshot:
    """A snapshot that the run will send. `wait` returns it or raises RemoteError, and `close` closes the connection."""

    close: Callable[[], None]
    wait: Callable[[], Snapshot]


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """The HTTP interface of one run."""

    url: str
    """The URL without the token, for error texts."""
    scheme: str
    host: str
    port: int
    path: str
    """Path of the application, with a slash at its end."""
    token: str | None = None

    def snapshot(self, wait_secs: float = 0.0) -> Snapshot:
        """Return a snapshot. Waits first, at most until the end of the run. Raises RemoteError."""
        with closing(self.ask_snapshot(wait_secs)) as asked:
            return asked.wait()

    def ask_snapshot(self, wait_secs: float) -> "AskedSnapshot":
        """Ask for the snapshot after `wait_secs`, or at the end of the run. Raises RemoteError.

        The caller asks first, and shows the last snapshot meanwhile. So a run that ends then still answers.
        """
        timeout_secs = TIMEOUT_SECS + wait_secs
        connection = self._ask("GET", f"api/snapshot?wait={min(wait_secs, MOST_WAIT_SECS):g}", None, timeout_secs)
        return AskedSnapshot(connection.close, lambda: self._snapshot_of(self._answer(connection, timeout_secs)))

    def _snapshot_of(self, values: Mapping[str, Any]) -> Snapshot:
        try:
            return snapshot_from_dict({"checkpoint": None, "flow": (), **values}, _ENTRIES)
        except (ValueError, TypeError, KeyError) as error:
            raise RemoteError(f"{self.url} sends a snapshot that this version cannot read: {error}", hint=_SAME_VERSION) from error

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, timeout_secs: float = TIMEOUT_SECS) -> Any:
        """Send a change, and return the JSON of its answer. Raises RemoteError."""
        return self._answer(self._ask("POST", path, body or {}, timeout_secs), timeout_secs)

    def get(self, path: str) -> Any:
        """Return the JSON object at a path. Raises RemoteError."""
        return self._answer(self._ask("GET", path, None, TIMEOUT_SECS), TIMEOUT_SECS)

    def events(self) -> Iterator[tuple[str, Any]]:
        """Yield name and value of each event of the run, until its end. The connection is open when the first one is taken.

        Raises RunGone if the connection is lost before the event `end`.
        """
        connection = self._ask("GET", "api/events", None, SILENCE_SECS)
        sock = connection.sock
        with closing(connection), self._errors(SILENCE_SECS):
            with _deadline(sock, SILENCE_SECS):
                answer = connection.getresponse()
                if answer.status != 200 or answer.getheader(_VERSION) is None:
                    self._checked(answer.status, answer.getheader(_VERSION), answer.read(MOST_ANSWER_BYTES))
            name = ""
            while name != "end":
                with _deadline(sock, SILENCE_SECS):
                    name, value = _next_event(answer)
                yield name, value

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, timeout_secs: float) -> http.client.HTTPConnection:
        """Send a request, and return its connection."""
        kind = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout_secs)
        headers = {"authorization": f"Bearer {self.token}"} if self.token and method == "POST" else {}
        content = None if body is None else json.dumps(body).encode("ascii")
        try:
            with self._errors(timeout_secs):
                connection.request(method, self.path + path, content, headers)
        except RemoteError:
            connection.close()
            raise
        return connection

    def _answer(self, connection: http.client.HTTPConnection, timeout_secs: float) -> Any:
        """Return the JSON object of an answer, and close the connection."""
        with closing(connection), self._errors(timeout_secs), _deadline(connection.sock, timeout_secs):
            answer = connection.getresponse()
            text = answer.read(MOST_ANSWER_BYTES)
            if answer.length:  # read() with a limit accepts an answer that is cut
                raise http.client.IncompleteRead(text, answer.length)
        return self._checked(answer.status, answer.getheader(_VERSION), text)

    @contextmanager
    def _errors(self, timeout_secs: float) -> Iterator[None]:
        """Turn an error of the connection into a RemoteError."""
        try:
            yield
        except TimeoutError:
            hint = "The loop of the run may be blocked. Look at its log, or try again."
            raise RemoteError(f"{self.url} did not answer within {timeout_secs:g} s", hint=hint) from None
        except ssl.SSLError as error:
            raise RemoteError(f"{self.url} has no valid TLS: {error.reason or error}", hint="Check the URL, or write http://.") from error
        except (OSError, http.client.IncompleteRead) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise RunGone(f"no run answers at {self.url}: {why}", hint="Start it by `run topology.py --http ADDRESS`.") from error
        except (http.client.HTTPException, ValueError) as error:
            raise RemoteError(f"{self.url} is not the page of a run: {type(error).__name__}", hint=_CHECK_URL) from error

    def _checked(self, status: int, version: str | None, text: bytes) -> Any:
        """Return the JSON object of an answer. Raise RemoteError for an error, and for an answer of another server."""
        if version is None:
            raise RemoteError(f"{self.url} is not the page of a run (its answer has status {status})", hint=_CHECK_URL, status=status)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            other = f"It has version {version}, and this program {__version__}. " if version != __version__ else ""
            raise RemoteError(f"{self.url} sends an answer that is no JSON object", hint=f"{other}{_SAME_VERSION}", status=status)
        if status >= 400:
            raise RemoteError(_text(value, "error") or f"the run answers with status {status}", hint=_text(value, "hint"), status=status)
        return value


@contextmanager
def _deadline(sock: socket.socket, secs: float) -> Iterator[None]:
    """Cut a connection that has not sent everything after some time, and raise TimeoutError.

    The timeout of a socket is not enough, because it begins anew with each byte that a slow server sends.
    """
    is_over = threading.Event()

    def cut() -> None:
        is_over.set()
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of a TLS socket, which another thread reads

    timer = threading.Timer(secs, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as error:
        if is_over.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()


def _next_event(answer: http.client.HTTPResponse) -> tuple[str, Any]:
    """Return name and value of the next server-sent event."""
    name = ""
    while line := answer.readline(MOST_ANSWER_BYTES):
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            return name, json.loads(value)
    raise ConnectionResetError("the answer has no end")


_SAME_VERSION: Final = "Use the same version of Stormcell here and in the run."
_CHECK_URL: Final = "Check host, port and path. A mounted page has a path: http://127.0.0.1:8000/engine/."


def _text(value: Mapping[str, Any], name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def remote_run(url: str, token: str | None = None) -> RemoteRun:
    """Return the run at a URL, an address or a port. Raise click.UsageError if it is none of them.

    A URL may end in `#token=...`, as the run prints it. `token` overrides this, and both override `ENGINE_HTTP_TOKEN`.
    """
    text = f"http://127.0.0.1:{url.strip().lstrip(':')}/" if _BARE_PORT.fullmatch(url.strip()) else url.strip()
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        port, host = None, None
    if not host or parts.scheme not in ("http", "https") or not text.isprintable() or " " in text or parts.username:
        raise click.UsageError(f"{url!r} is not the URL of a run. Write http://127.0.0.1:8080/, or only the port 8080.")
    found = re.search(r"(?:^|&)token=([^&]+)", parts.fragment)
    if token is None and found is not None:
        token = unquote(found[1])
    if token is None:
        token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise click.UsageError("the token is empty, or has a space or a character that is not ASCII. Copy it from the output of the run.")
    path = quote(unquote(parts.path), safe="/") or "/"
    shown = f"{parts.scheme}://{parts.netloc}{path}"
    default = 443 if parts.scheme == "https" else 80
    return RemoteRun(
        shown,
        parts.scheme,
        host,
        default if port is None else port,
        path if path.endswith("/") else f"{path}/",
        token,
    )
