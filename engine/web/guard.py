"""Stands in front of all routes. Refuses wrong hosts and sites, adds headers to every answer, and turns errors into JSON."""

from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.log import EngineLogger
from engine.web.access import Access
from engine.web.answers import RAW_HEADERS, error_answer

LOGGER: Final = EngineLogger("engine.web")


class Guard:
    """ASGI middleware around the routes of one application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                _add_headers(message)
            await send(message)

        refusal = self._access.refusal(scope["method"], scope["headers"])
        if refusal is not None:
            await error_answer(refusal.status, refusal.error, refusal.hint)(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            LOGGER.error("the request %s %s failed", scope["method"], scope["path"], exc_info=error)
            if not has_started:
                answer = error_answer(500, "the server failed to answer", "The log of the run has the reason.")
                await answer(scope, receive, send_with_headers)


def _add_headers(message: MutableMapping[str, Any]) -> None:
    own = {name for name, _ in RAW_HEADERS}
    message["headers"] = [*(pair for pair in message.get("headers", ()) if pair[0].lower() not in own), *RAW_HEADERS]
