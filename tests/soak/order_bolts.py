"""Bolts of the service of the outage, in a module that a child process can import."""

import httpx

from engine import BasicBolt, Burst, Fields, StatefulBasicBolt, StatefulBurstBolt, Tuple

CUSTOMERS = 7


class Charge(BasicBolt):
    """Calls the downstream service."""

    output_fields = Fields("customer", "number")
    concurrency = 100

    def __init__(self, url: str) -> None:
        self.url = url

    async def prepare(self) -> None:
        self.client = httpx.AsyncClient(verify=False)

    async def execute(self, tup: Tuple) -> tuple[int, int]:  # type: ignore[override]
        answer = await self.client.get(f"{self.url}/charge/{tup['number']}")
        answer.raise_for_status()
        return tup["number"] % CUSTOMERS, tup["number"]

    async def cleanup(self) -> None:
        await self.client.aclose()


class Count(StatefulBasicBolt):
    """Counts the orders of each customer."""

    output_fields = Fields("number", "count")

    def execute(self, tup: Tuple) -> tuple[int, int]:  # type: ignore[override]
        count = self.state.get(tup["customer"], 0) + 1
        self.state.put(tup["customer"], count)
        return tup["number"], count


class CountMany(StatefulBurstBolt):
    """Does the same in bursts."""

    output_fields = Fields("number", "count")

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            count = self.state.get(tup["customer"], 0) + 1
            self.state.put(tup["customer"], count)
            self.collector.emit((tup["number"], count), anchors=tup)


COUNTS = {False: Count, True: CountMany}
"""By whether it takes bursts."""
