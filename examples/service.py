"""A web service that answers an order after all of its tuples are processed: `python examples/service.py [PORT]`.

    curl -d '{"item": "tea", "quantity": 2}' http://127.0.0.1:8000/orders

The topology runs inside the service, on the same event loop. Needs the extra `service`: `pip install '.[service]'` in a checkout,
`pip install 'stormcell[service]'` elsewhere.
"""

import contextlib
import sys
from collections import defaultdict
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import engine
from engine import BasicBolt, Config, FailTuple, Failure, Inlet, InletClosed, Topology, TopologyBuilder, Tuple, TupleFailed, bolt
from engine.metrics import CONTENT_TYPE

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


class Book(BasicBolt):
    """Adds each order to the takings of its item. All orders of an item come to the same task."""

    def __init__(self, takings: defaultdict[str, float]) -> None:
        self.takings = takings

    def execute(self, tup: Tuple) -> None:
        self.takings[tup["item"]] += tup["total"]


def topology(takings: defaultdict[str, float]) -> Topology:
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", lambda: Inlet("item", "quantity"))
    builder.set_bolt("price", price).shuffle_grouping("orders")
    builder.set_bolt("book", lambda: Book(takings), parallelism=2).fields_grouping("price", "item")
    return builder.build()


def refusal(failure: Failure) -> Response:
    """Return the answer to a failed order: 422 if a bolt refused it, 504 after a timeout, else 500."""
    if failure.reason == "failed":
        return JSONResponse({"error": failure.error}, 422)
    return JSONResponse({"error": failure.describe()}, 504 if failure.reason == "timeout" else 500)


def create_app(config: Config) -> Starlette:
    """Return the service. The run starts and drains with the lifespan of the service."""
    takings: defaultdict[str, float] = defaultdict(float)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with engine.run(topology(takings), config) as run:
            app.state.run = run
            yield
            await run.drain()

    async def order(request: Request) -> Response:
        try:
            asked = await request.json()
            item, quantity = str(asked["item"]), int(asked["quantity"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return JSONResponse({"error": "an order is a JSON object with item and quantity"}, 400)
        try:
            await request.app.state.run.inlet("orders").send((item, quantity))
        except TupleFailed as failed:
            return refusal(failed.failure)
        except InletClosed as closed:
            return JSONResponse({"error": closed.message}, 503)
        return JSONResponse({"takings": takings[item]})

    async def metrics(request: Request) -> Response:
        return Response(request.app.state.run.metrics_text(), headers={"content-type": CONTENT_TYPE})

    return Starlette(routes=[Route("/orders", order, methods=["POST"]), Route("/metrics", metrics)], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(create_app(Config(message_timeout_secs=5)), port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
