"""A consumer that is connected, however many tries that takes."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from engine.kafka import reach
from engine.kafka.consumer_link import ConsumerLink
from engine.kafka.trouble import Patience, Report

_CONNECT_SECS: Final = 5.0
"""What the first try may take; each next one may take twice as long."""

L = TypeVar("L", bound=ConsumerLink)


async def connect(make: Callable[[], L], to: reach.Reached, report: Report) -> L:
    """Return a link that is started; FatalError where no other try would do better. Each try that failed is reported."""
    patience, limit = Patience(report), _CONNECT_SECS
    while True:
        link: L | None = None
        try:
            link = make()
            async with asyncio.timeout(limit):
                await link.start()
            return link
        except BaseException as error:
            if link is not None:
                await link.stop()
            if not isinstance(error, Exception):
                raise
            real = await reach.real_error(error, to)
            await patience.bear(real, f"a connection to {', '.join(to.brokers)}")
        limit *= 2
