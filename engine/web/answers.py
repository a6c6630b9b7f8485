"""Reads requests and makes answers: JSON, errors with a hint, and the headers of every answer (WEB-1, WEB-2)."""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from engine.errors import EngineError
from engine.version import __version__
from engine.web.encoding import encode_json

MOST_BODY_BYTES: Final = 1_000_000
BODY_SECS: Final = 10.0
"""Time for a client to send the body of a request."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
VERSION_HEADER: Final = "x-stormcell-version"
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    VERSION_HEADER: __version__,
}
"""Headers of every answer."""
RAW_HEADERS: Final = [(name.encode("ascii"), value.encode("ascii")) for name, value in HEADERS.items()]


class WrongRequest(Exception):
    """A request that gets an error as its answer."""

    def __init__(self, status: int, error: str, hint: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint
        self.headers = headers


def json_answer(value: Any, status: int = 200) -> Response:
    """Return an answer of JSON."""
    return Response(encode_json(value), status, media_type="application/json")


def error_answer(status: int, error: str, hint: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON with the fields `error` and `hint`."""
    return Response(encode_json({"error": error, "hint": hint}), status, headers, media_type="application/json")


def error_of(status: int, error: EngineError) -> WrongRequest:
    """Return an error of the engine as an answer."""
    return WrongRequest(status, error.message, error.hint or "")


async def json_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raise WrongRequest if there is none, if it is too large, or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY_BYTES:
                    hint = f"Send at most {MOST_BODY_BYTES:,} bytes."
                    raise WrongRequest(413, "the body of the request is too large", hint)
    except TimeoutError:
        hint = f"Send the whole body within {BODY_SECS:g} s."
        raise WrongRequest(408, "the body of the request did not arrive", hint, {"connection": "close"}) from None
    except ClientDisconnect:
        raise WrongRequest(400, "the client has gone", "Send the whole body.") from None
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise WrongRequest(400, "the body of the request is not JSON", 'Send an object, such as {"level": "debug"}.') from None
    if not isinstance(value, dict):
        raise WrongRequest(400, "the body of the request is not a JSON object", 'Send an object, such as {"level": "debug"}.')
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a float")
    return number


def text_of(body: Mapping[str, Any], name: str) -> str:
    """Return a field of a request that must be text."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise WrongRequest(400, f"the field {name!r} must be a text", f'Send {{"{name}": "..."}}.')
    return value
