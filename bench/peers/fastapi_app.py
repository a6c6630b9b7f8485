# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,untyped-decorator,unused-ignore"
"""A FastAPI service that calls the function directly. FastAPI checks and converts the order by its model."""

from fastapi import FastAPI
from pydantic import BaseModel

from bench.service.closed_loop import price
from bench.service.http_load import measure_app


class Order(BaseModel):
    """Body of a request."""

    item: str
    quantity: int


async def measure(clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of the service."""
    app = FastAPI()

    @app.post("/orders")
    async def answer(order: Order) -> dict[str, float]:
        return {"total": price(order.item, order.quantity)}

    return await measure_app(app, clients, warm_secs, measured_secs)
