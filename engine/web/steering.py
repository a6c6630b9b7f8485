"""Routes that change a run. Each needs the token (WEB-1)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from engine.api import InletClosed
from engine.api.arguments import number_within
from engine.cancellation import aio_task_error
from engine.errors import EngineError, TupleFailed, UsageError
from engine.log import EngineLogger
from engine.runtime.snapshot import END_STATES
from engine.web.answers import WrongRequest, error_of, json_answer, json_object, text_of
from engine.web.encoding import json_value
from engine.web.sample import trace_dict
from engine.web.site import Site, level_name

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
BEGIN_SECS: Final = 0.02
"""Time in which a drain or a stop that is not possible says so."""
LONGEST_MESSAGE_ID: Final = 1000
"""Characters of a traced message id. Each sample sends it to each reader."""
LOGGER: Final = EngineLogger("engine.web")


class Steering:
    """The changing routes of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/api/activate": self.activate,
            "/api/deactivate": self.deactivate,
            "/api/drain": self.drain,
            "/api/stop": self.stop,
            "/api/log-level": self.log_level,
            "/api/tasks/{id}/restart": self.restart,
            "/api/trace": self.trace,
            "/api/call/{inlet:path}": self.call,
        }
        return [Route(path, self._with_token(endpoint), methods=["POST"]) for path, endpoint in posts.items()]

    def _with_token(self, endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            refusal = self._site.access.change_refusal(request.scope["headers"])
            if refusal is not None:
                headers = {"www-authenticate": "Bearer"} if refusal.status == 401 else None
                raise WrongRequest(refusal.status, refusal.error, refusal.hint, headers)
            return await endpoint(request)

        return checked

    async def activate(self, request: Request) -> Response:
        """Start the polls of the spouts."""
        return await self._switched(self._site.run.activate())

    async def deactivate(self, request: Request) -> Response:
        """Stop the polls of the spouts."""
        return await self._switched(self._site.run.deactivate())

    async def _switched(self, change: Awaitable[None]) -> Response:
        try:
            await change
        except UsageError as error:
            raise error_of(409, error) from None
        return json_answer({"state": self._site.run.state})

    async def drain(self, request: Request) -> Response:
        """Begin a drain, and answer at once."""
        return await self._begun("drain", self._site.run.drain)

    async def stop(self, request: Request) -> Response:
        """Begin to stop, and answer at once."""
        return await self._begun("stop", self._site.run.stop)

    async def _begun(self, name: str, change: Callable[[], Coroutine[Any, Any, None]]) -> Response:
        state = self._site.run.state
        if state in END_STATES:
            raise WrongRequest(409, f"the run has ended ({state}), so it cannot {name}", "Start another run.")
        aio_task = asyncio.create_task(change(), name=f"{name} over HTTP")
        self._site.background.add(aio_task)
        aio_task.add_done_callback(self._note_end)
        await asyncio.wait((aio_task,), timeout=BEGIN_SECS)
        if aio_task.done():
            error = aio_task_error(aio_task)
            if isinstance(error, UsageError):
                raise error_of(409, error)
            if error is None and self._site.run.state not in END_STATES:  # a stop before the run is entered has no effect
                raise WrongRequest(409, f"the run has not begun, so it cannot {name}", f"{name.capitalize()} it while it waits or runs.")
        return json_answer({"state": self._site.run.state}, 202)

    def _note_end(self, aio_task: "asyncio.Task[None]") -> None:
        self._site.background.discard(aio_task)
        error = aio_task_error(aio_task)
        if error is not None and not isinstance(error, EngineError):  # the run itself reports the error that ended it
            LOGGER.error("%s failed", aio_task.get_name(), exc_info=error)

    async def log_level(self, request: Request) -> Response:
        """Change the level of the log."""
        level = text_of(await json_object(request), "level").lower()
        if level not in LEVELS:
            raise WrongRequest(400, f"{level[:50]!r} is not a level of the log", f"The levels are {', '.join(LEVELS)}.")
        self._site.logger.setLevel(level.upper())
        return json_answer({"level": level_name(self._site.logger)})

    async def restart(self, request: Request) -> Response:
        """Replace the instance of a task."""
        text = request.path_params["id"]
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise WrongRequest(404, f"{text[:50]!r} is not the id of a task", "The snapshot has the ids of all tasks.")
        try:
            self._site.run.restart_task(int(text))
        except UsageError as error:
            raise error_of(self._status_now(404), error) from None
        return json_answer({"task": int(text)}, 202)

    async def trace(self, request: Request) -> Response:
        """Trace the next tree with a message id to its end."""
        body = await json_object(request)
        component_id, message_id = text_of(body, "component"), text_of(body, "message_id")
        if len(message_id) > LONGEST_MESSAGE_ID:
            raise WrongRequest(400, "the message id is too long to trace", f"It may have {LONGEST_MESSAGE_ID:,} characters.")
        try:
            trace = self._site.run.trace_message(component_id, message_id)
        except UsageError as error:
            raise error_of(self._status_now(400), error) from None
        return json_answer(trace_dict(trace), 202)

    def _status_now(self, status: int) -> int:
        """Return the status of a refused change: 409 if the state of the run is the reason."""
        return status if self._site.run.state == "running" else 409

    async def call(self, request: Request) -> Response:
        """Send values to an inlet, and answer with the rows that reach a `Reply`."""
        inlet = request.path_params["inlet"]
        if inlet not in self._site.inlets:
            callable_now = f"Callable: {', '.join(sorted(self._site.inlets))}. " if self._site.inlets else ""
            hint = f"{callable_now}Allow it at the start: --http-call INLET, or app(run, callable_inlets=[INLET])."
            raise WrongRequest(403, f"the inlet {inlet[:100]!r} cannot be called over HTTP", hint)
        if self._site.run.state in ("waiting", "starting"):
            raise WrongRequest(503, f"the run is {self._site.run.state}", "Call the inlet while /readyz answers 200.")
        values, timeout = _call_of(await json_object(request))
        try:
            rows = await self._site.run.inlet(inlet).call(values, timeout=timeout)
        except TupleFailed as error:
            status = {"failed": 422, "timeout": 504}.get(error.failure.reason, 500)
            raise WrongRequest(status, error.message, "The failures of the run have the details.") from None
        except TimeoutError:
            raise WrongRequest(504, f"the call took longer than {timeout:g} s", "The tuple is still processed.") from None
        except InletClosed as error:
            raise error_of(503, error) from None
        except (UsageError, TypeError) as error:  # TypeError: a value that cannot be hashed by a grouping
            raise WrongRequest(400, str(getattr(error, "message", error)), getattr(error, "hint", None) or "Correct the values.") from None
        return json_answer({"rows": [dict(zip(row.fields.names, map(json_value, row), strict=False)) for row in rows]})


def _call_of(body: dict[str, Any]) -> tuple[tuple[Any, ...], float | None]:
    """Return the values and the timeout of a call."""
    values, timeout = body.get("values"), body.get("timeout_secs")
    if not isinstance(values, list):
        raise WrongRequest(400, "the field 'values' must be a list", 'Send {"values": [1, "two"]}.')
    if timeout is not None and number_within(timeout, 0, 1e9) is None:
        raise WrongRequest(400, "the field 'timeout_secs' must be a number of seconds", 'Send {"values": [...], "timeout_secs": 5}.')
    return tuple(values), timeout
