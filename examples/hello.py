"""Hello world: a spout, a bolt, and the stream between them.

Run it: `python examples/hello.py`, or `python -m engine run examples/hello.py`.
"""

import sys
from collections.abc import Iterator

from engine import TopologyBuilder, Tuple, bolt, spout
from engine.cli import run_in_terminal


@spout("name")
def names() -> Iterator[tuple[str]]:
    yield from [("world",), ("storm",)]


@bolt()
def greet(tup: Tuple) -> None:
    print(f"Hello, {tup['name']}!")


builder = TopologyBuilder("hello")
builder.set_spout("names", names)
builder.set_bolt("greet", greet).shuffle_grouping("names")

if __name__ == "__main__":
    sys.exit(run_in_terminal(builder.build()).exit_status)
