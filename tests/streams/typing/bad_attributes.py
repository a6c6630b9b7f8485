"""Attributes that rows do not have."""

from collections.abc import Iterator
from typing import NamedTuple

from engine import spout
from engine.streams import Flow, Put
from engine.testing import Capture
from engine.transactional.values import MemoryValues


class Click(NamedTuple):
    user: str
    page: str


@spout("user", "page")
def clicks() -> Iterator[tuple[str, str]]:
    yield "ada", "/"


source = Flow("bad").stream("clicks", clicks, Click)
source.map(lambda click: click.pgae)  # error: pgae
source.filter(lambda click: click.usr == "ada")  # error: usr
source.key_by(lambda click: click.pgae)  # error: pgae
source.map(lambda click: click.page).map(lambda page: page.user)  # error: user
source.key_by(lambda click: click.page).count().map(lambda row: row.key)  # error: key
source.key_by(lambda click: click.page).count().sink("show", lambda row: print(row.value.name))  # error: name
source.map(lambda click: click.page, on_error="divert", name="m").failed.map(lambda failed: failed.row.pgae)  # error: pgae
source.sink("fields", Capture(), fields={"page": lambda click: click.pgae})  # error: pgae
source.sink("put", Put[Click](MemoryValues("v"), key=lambda click: click.pgae, value=lambda click: click.user))  # error: pgae
# mypy does not infer the type of a lambda within an argument of an overloaded method
source.sink("put", Put(MemoryValues("v"), key=lambda click: click.pgae, value=lambda click: click.user))  # error[pyright]: pgae
