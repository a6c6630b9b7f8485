"""The stubs of the compiled modules have exactly the names of the modules."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "_native"
MODULES = sorted(path.stem for path in NATIVE.glob("*.pyx"))
TYPED_ONLY = {"__len__", "__iter__", "__contains__", "__getitem__", "__init__"}


def declared(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the public names of a stub, without type variables."""
    names: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
    return {name: node for name, node in names.items() if not name.startswith("_") or name in TYPED_ONLY}


def public(module: ModuleType) -> set[str]:
    """Return the names that a compiled module defines itself."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (getattr(value, "__module__", None) == module.__name__ or isinstance(value, (int, tuple)))
    }


@pytest.mark.parametrize("module", MODULES)
def test_each_stub_has_exactly_the_names_of_its_module(module: str) -> None:
    stub = declared(ast.parse((NATIVE / f"{module}.pyi").read_text(encoding="utf-8")).body)
    compiled = importlib.import_module(f"_native.{module}")
    assert public(compiled) == set(stub)
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef):
            own = {attribute for attribute in vars(getattr(compiled, name)) if not attribute.startswith("_")}
            assert own == {attribute for attribute in declared(node.body) if attribute not in TYPED_ONLY}, name
            assert all(hasattr(getattr(compiled, name), special) for special in declared(node.body))
