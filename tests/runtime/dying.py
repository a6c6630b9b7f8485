"""Components that die, and runs that end of it."""

from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Config, Topology, Tuple
from tests.runtime.stage import failing, play


class Poisoned(Bolt):
    """Raises at number 3, and records its instances."""

    instances: list["Poisoned"]

    def __init__(self) -> None:
        self.prepared = self.cleaned = 0
        self.got: list[int] = []
        self.instances.append(self)

    def prepare(self) -> None:
        self.prepared += 1

    def execute(self, tup: Tuple) -> None:
        self.got.append(tup[0])
        if tup[0] == 3:
            raise ValueError("poison")
        self.collector.ack(tup)

    def cleanup(self) -> None:
        self.cleaned += 1


def poisoned(on_error: str | None = None) -> type[Poisoned]:
    settings = {"instances": [], "__module__": __name__} | ({"on_error": on_error} if on_error else {})
    return type("FreshPoisoned", (Poisoned,), settings)


def ends_with_component_error(topology: Topology, config: Config | None = None, **options: Any) -> ComponentError:
    """Run a topology until it fails, and return the error."""

    async def main() -> ComponentError:
        async with failing(engine.run(topology, config)) as run:
            with pytest.raises(ComponentError) as caught:
                await run.completed()
        assert run.state == "failed"
        assert run.error is caught.value
        with pytest.raises(ComponentError):
            await run.completed()
        return caught.value

    error = play(main, **options)
    assert isinstance(error, ComponentError)
    return error
