"""A page that is opened and never left ends with its event loop, as its run does (RUN-5, WEB-4)."""

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Any

import pytest

import engine
from engine import Inlet, TopologyBuilder
from engine.web import serve


@pytest.mark.guarantee("RUN-5", "WEB-4")
@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_page_that_is_lost_with_its_run_frees_its_port() -> None:
    builder = TopologyBuilder("lost")
    builder.set_spout("in", lambda: Inlet("name"))

    async def lose() -> Any:
        stack = AsyncExitStack()
        run = engine.run(builder.build())
        serving = await stack.enter_async_context(serve(run, "127.0.0.1:0"))
        await stack.enter_async_context(run)
        return stack, serving.address.port

    with pytest.warns(ResourceWarning, match="the run of 'lost' was entered and never left"):
        kept, port = asyncio.run(lose())
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
    del kept
