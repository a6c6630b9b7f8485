"""Parts of topology files for tests, and the texts of refused ones."""

from collections.abc import Callable

import pytest

from engine.cli.topology_file import load_topology
from engine.errors import TopologyFileError

HEAD = """\
from engine.api import Fields, Spout, SpoutExhausted
from engine.topology import Topology, TopologyBuilder


class Lines(Spout):
    output_fields = Fields("line")

    def next_tuple(self):
        raise SpoutExhausted


def _builder(name="words"):
    builder = TopologyBuilder(name)
    builder.set_spout("lines", Lines)
    return builder


"""

Write = Callable[..., str]
"""Writes a topology file after `HEAD` or another `head`, and returns its path."""


def load_error(spec: str) -> str:
    """Return the text of the error with which a topology file is refused."""
    with pytest.raises(TopologyFileError) as caught:
        load_topology(spec)
    assert caught.value.exit_status == 2
    assert caught.value.hint
    return str(caught.value)
