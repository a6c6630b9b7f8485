"""A web service whose answers come from a topology: `python examples/service.py [PORT]`.

    curl -d '{"item": "tea", "quantity": 2}' http://127.0.0.1:8000/orders

Each request gets the result of its own order, after the new takings are committed in orders.db. A restart continues with them. The
topology runs inside the service, on the same event loop. `/metrics` is for Prometheus, `/healthz` for the supervisor of the service.
`/engine/` is the page of the run. The environment variable SERVICE_TOKEN is the token that changes from this page need.

Needs the extra `web`: `pip install '.[web]'` in a checkout, `pip install 'stormcell[web]'` elsewhere.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

import engine
from engine import (
    Config,
    FailTuple,
    Failure,
    Inlet,
    InletClosed,
    KeyValueState,
    Reply,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleFailed,
    bolt,
    stateful_bolt,
)
from engine.metrics import CONTENT_TYPE
from engine.web import app as page_of

PRICES = {"tea": 3.50, "coffee": 4.20, "cake": 5.00}


async def price_of(item: str) -> float:
    """Return the price of an item. A real service would wait for a database or another service here."""
    if item not in PRICES:
        raise FailTuple(f"there is no {item!r} to order")
    return PRICES[item]


@bolt("item", "total", concurrency=100)
async def price(tup: Tuple) -> tuple[str, float]:
    if tup["quantity"] < 1:
        raise FailTuple(f"an order of {tup['quantity']} is no order")
    return tup["item"], tup["quantity"] * await price_of(tup["item"])


@stateful_bolt("takings")
def book(tup: Tuple, state: KeyValueState[str, float]) -> tuple[float]:
    """Add an order to the takings of its item. All orders of an item come to the same task."""
    takings = state.get(tup["item"], 0.0) + tup["total"]
    state.put(tup["item"], takings)
    return (takings,)


def topology() -> Topology:
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", lambda: Inlet("item", "quantity"))
    builder.set_bolt("price", price).shuffle_grouping("orders")
    builder.set_bolt("book", book, parallelism=2).fields_grouping("price", "item")
    builder.set_bolt("reply", Reply).shuffle_grouping("book")
    return builder.build()


def refusal(failure: Failure) -> Response:
    """Return the answer to a failed order: 422 if a bolt refused it, 504 after a timeout, else 500."""
    if failure.reason == "failed":
        return JSONResponse({"error": failure.error}, 422)
    return JSONResponse({"error": failure.describe()}, 504 if failure.reason == "timeout" else 500)


def create_app(config: Config, token: str | None = None) -> Starlette:
    """Return the service. The run starts and drains with the lifespan of the service. token: secret of the run's page."""
    run = engine.run(topology(), config)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.run = run
        async with run:
            yield
            await run.drain()

    async def order(request: Request) -> Response:
        try:
            asked = await request.json()
            item, quantity = str(asked["item"]), int(asked["quantity"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return JSONResponse({"error": "an order is a JSON object with item and quantity"}, 400)
        try:
            [row] = await request.app.state.run.inlet("orders").call((item, quantity))
        except TupleFailed as failed:
            return refusal(failed.failure)
        except InletClosed as closed:
            return JSONResponse({"error": closed.message}, 503)
        return JSONResponse({"takings": row["takings"]})

    async def metrics(request: Request) -> Response:
        return Response(request.app.state.run.metrics_text(), headers={"content-type": CONTENT_TYPE})

    async def health(request: Request) -> Response:
        state = request.app.state.run.state
        return JSONResponse({"state": state}, 200 if state == "running" else 503)

    routes = [
        Route("/orders", order, methods=["POST"]),
        Route("/metrics", metrics),
        Route("/healthz", health),
        Mount("/engine", page_of(run, token=token)),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    settings = Config(message_timeout_secs=5, state_provider="sqlite:///orders.db")
    uvicorn.run(create_app(settings, os.environ.get("SERVICE_TOKEN")), port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
