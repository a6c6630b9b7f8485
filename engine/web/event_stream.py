"""Sends the samples of a run to one reader as server-sent events. A reader that takes nothing is dropped (WEB-3)."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from engine.cancellation import cancel_and_wait
from engine.web.answers import error_answer
from engine.web.sampler import Sampler, TooManyReaders

SEND_SECS: Final = 30.0
"""Time for a reader to take a sample."""
_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class EventStream:
    """ASGI response of `/api/events`."""

    def __init__(self, sampler: Sampler, drop: Callable[[Scope], None]) -> None:
        """drop: closes the connection of a request at once, with all that is not sent yet."""
        self._sampler = sampler
        self._drop = drop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the reader is gone."""
        try:
            with self._sampler.reader():
                await self._serve_reader(scope, receive, send)
        except TooManyReaders as error:
            await error_answer(503, error.message, error.hint, {"retry-after": "5"})(scope, receive, send)

    async def _serve_reader(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._sampler.send_charged(self._send_all(scope, send)))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(each for each in (sending, leaving) if not each.done())
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, scope: Scope, send: Send) -> None:
        events = self._sampler.events()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            async for event in events:
                async with asyncio.timeout(SEND_SECS):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._drop(scope)
        finally:
            await events.aclose()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
