"""Services on Starlette: each request gets its result from a topology, or from a direct call of the same function."""

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import engine
from bench.servers import store_url
from bench.service.calls import NONE, order, topology
from bench.service.closed_loop import price
from bench.service.http_load import measure_app
from engine import Config


def topology_app(store: str, url: str) -> Starlette:
    """Return the service whose results come from a topology."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with engine.run(topology(store), Config(state_provider=url)) as run:
            app.state.orders = run.inlet("orders")
            yield
            await run.drain()

    async def answer(request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({"total": await order(request.app.state.orders, asked["item"], asked["quantity"])})

    return Starlette(routes=[Route("/orders", answer, methods=["POST"])], lifespan=lifespan)


def direct_app() -> Starlette:
    """Return the service that calls the function directly."""

    async def answer(request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({"total": price(asked["item"], asked["quantity"])})

    return Starlette(routes=[Route("/orders", answer, methods=["POST"])])


async def measure(store: str, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of the service whose results come from a topology."""
    with contextlib.nullcontext("memory://") if store == NONE else store_url(store) as url:
        return await measure_app(topology_app(store, url), clients, warm_secs, measured_secs)


async def measure_direct(clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of the service that calls the function directly."""
    return await measure_app(direct_app(), clients, warm_secs, measured_secs)
