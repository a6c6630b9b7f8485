"""Stands in front of everything else, and lets each request wait for its turn (WEB-3). A change with the token never waits."""

from collections import OrderedDict
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from engine.web.access import Access
from engine.web.answers import error_answer
from engine.web.read_budget import NEW, Party, ReadBudget

MOST_CLIENTS: Final = 1024
"""Clients whose last turn is known."""
APART: Final = ("/healthz", "/readyz", "/metrics")
"""Paths of probes and scrapers, which give up after a second. They do not wait for other requests of their host."""


class Pacing:
    """ASGI middleware around one application, also where another server has mounted it."""

    def __init__(self, app: ASGIApp, access: Access, budget: ReadBudget) -> None:
        self._app = app
        self._access = access
        self._budget = budget
        self._last_turns: OrderedDict[Any, float] = OrderedDict()
        """When each connection had its last turn, by the client's address and port. The latest is the last."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request in its turn."""
        if scope["type"] != "http" or self._access.is_authorized_change(scope["method"], scope["headers"]):
            await self._app(scope, receive, send)
            return
        client = scope.get("client") and tuple(scope["client"])
        last = self._last_turns.get(client, NEW)
        party = Party(client[0] if client else None, _asks_for(scope), last == NEW)
        if self._budget.is_full(party):
            hint = "Ask less often. The events of the run (/api/events) are for all readers."
            await error_answer(503, "too many requests wait for an answer", hint, {"retry-after": "5"})(scope, receive, send)
        else:
            self._note_turn(client, await self._budget.turn(party, last))
            await self._budget.run_charged(_steps(self._app, scope, receive, send))

    def _note_turn(self, client: Any, at: float) -> None:
        self._last_turns[client] = at
        self._last_turns.move_to_end(client)
        if len(self._last_turns) > MOST_CLIENTS:
            self._last_turns.popitem(last=False)


def _asks_for(scope: Scope) -> str:
    """Return the path if it is one of those that do not wait for the others."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path if path in APART else ""


async def _steps(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request. An ASGI application may return any awaitable, and this is a coroutine."""
    await app(scope, receive, send)
