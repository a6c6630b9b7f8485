"""Packages that import their public names on first use: names of programs, of `dir()` and of type checkers agree."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tests.project.sources import ROOT, modules

PACKAGES = sorted(name for name, source in modules().items() if "lazy_names(\n" in source.text and source.path.name == "__init__.py")

HELLO = """
import asyncio, sys, engine

@engine.spout("n")
def numbers():
    yield (1,)

builder = engine.TopologyBuilder("hello")
builder.set_spout("numbers", numbers)
builder.set_bolt("show", engine.bolt()(lambda tup: None)).shuffle_grouping("numbers")

async def main():
    async with engine.run(builder.build()) as run:
        await run.completed()
        assert run.snapshot().checkpoint is None

asyncio.run(main())
print(*sorted(sys.modules))
"""
MACHINERY = (
    *("engine.state", "msgpack", "sqlite3"),
    *("engine.checkpoint.bolts", "engine.checkpoint.checkpoints", "engine.checkpoint.barrier_wiring"),
    *("engine.flow.spout", "engine.flow.controller", "engine.flow.call_limit"),
    *("engine.transactional.batch_bolt", "engine.transactional.builder", "engine.transactional.coordinator", "engine.transactional.files"),
)


def test_the_packages_are_found() -> None:
    assert {"engine", "engine.checkpoint", "engine.flow", "engine.transactional"} <= set(PACKAGES)


def typed_names(package: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import under TYPE_CHECKING: these are the lazy names that a type checker knows."""
    for found in modules()[package].tree.body:
        if isinstance(found, ast.If):
            for line in found.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.module is not None
                yield from ((line.module, alias.name) for alias in line.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_type_checker_knows_the_objects_that_a_program_gets(package: str) -> None:
    loaded = import_module(package)
    for module, name in typed_names(package):
        assert getattr(loaded, name) is getattr(import_module(module), name), name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_type_checker_knows_each_public_name(package: str) -> None:
    loaded = import_module(package)
    lazy = {name for _, name in typed_names(package)}
    assert lazy <= set(loaded.__all__) <= set(dir(loaded))
    eager = {
        alias.asname or alias.name for line in modules()[package].tree.body if isinstance(line, ast.ImportFrom) for alias in line.names
    }
    assert set(loaded.__all__) == lazy | (eager & set(loaded.__all__))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_misspelled_name_is_an_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Fileds'"):
        import_module(package).Fileds
    [branch] = [found for found in modules()[package].tree.body if isinstance(found, ast.If)]
    assert "__getattr__" not in "".join(map(ast.unparse, branch.body)), "a type checker would accept every name"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_submodule_hides_a_public_name(package: str) -> None:
    loaded = import_module(package)
    assert not {found.name for found in iter_modules(loaded.__path__)} & set(loaded.__all__)


def test_a_hello_world_loads_no_feature() -> None:
    """A topology without state, batches and flow control loads the rules of the features, and nothing behind them."""
    done = subprocess.run([sys.executable, "-c", HELLO], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [name for name in done.stdout.split() if name in MACHINERY]
