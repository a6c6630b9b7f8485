"""Imports go down only: the rules of docs/ARCHITECTURE.md, judged on the source."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from tests.project.layers import DECIDING, EXCEPTIONS, KERNEL, LAYERS, THIRD_PARTIES, WITHOUT_ENGINE, layer_of, unit_of
from tests.project.sources import PACKAGES, ROOT, Source, modules, sources

OURS = {"_native", "engine", "spark_bridge", "tests", "bench", "examples"}
UNDECIDED = ("asyncio", "time", "random", "engine.clock.Clock", "engine.randomness.RunRandom")  # as a module that decides has none of
KNOWN = OURS | sys.stdlib_module_names | {"_typeshed"}  # the last is known to type checkers alone


def top(module: str) -> str:
    return module.split(".")[0]


def test_every_module_belongs_to_a_layer() -> None:
    homeless = [source.name for module, source in modules().items() if unit_of(module) is None]
    assert not homeless, "add them to LAYERS in tests/project/layers.py"


def test_imports_go_down_only() -> None:
    faults = []
    for module, source in modules().items():
        importer = unit_of(module)
        for found in source.imports:
            imported = unit_of(found.module)
            if importer is None or imported is None or imported in ("engine", importer) or (importer, imported) in EXCEPTIONS:
                continue
            if layer_of(imported) >= layer_of(importer):
                layers = f"layer {layer_of(importer)} imports layer {layer_of(imported)}"
                faults.append(f"{source.name}:{found.line}: {importer} imports {imported} ({layers})")
    assert not faults, "\n".join(faults)


def test_what_executors_run_needs_no_engine() -> None:
    faults = [
        f"{source.name}:{found.line}: imports {found.module}"
        for module, source in modules().items()
        for found in source.imports
        if unit_of(module) in WITHOUT_ENGINE and top(found.module) in ("engine", "_native")
    ]
    assert not faults


def test_every_exception_is_needed() -> None:
    used = {(unit_of(module), unit_of(found.module)) for module, source in modules().items() for found in source.imports}
    assert not [pair for pair in EXCEPTIONS if pair not in used and pair[0] in modules()]


def test_nothing_inside_imports_the_root() -> None:
    faults = [f"{source.name}:{found.line}" for source in modules().values() for found in source.imports if found.module == "engine"]
    assert not faults, "import from the module that defines the name"


def test_nothing_inside_imports_tests_bench_or_examples() -> None:
    faults = [
        f"{source.name}:{found.line}"
        for source in modules().values()
        for found in source.imports
        if top(found.module) in ("tests", "bench", "examples")
    ]
    assert not faults


def test_only_the_kernel_imports_native() -> None:
    faults = [
        f"{source.name}:{found.line}"
        for module, source in modules().items()
        for found in source.imports
        if top(found.module) == "_native" and unit_of(module) not in (KERNEL, "_native")
    ]
    assert not faults


def test_third_parties_stay_in_their_packages() -> None:
    faults = []
    for module, source in modules().items():
        for found in source.imports:
            name = top(found.module)
            if name in KNOWN:
                continue
            homes = THIRD_PARTIES.get(name, ())
            if not any(module == home or module.startswith(home + ".") for home in homes):
                faults.append(f"{source.name}:{found.line}: imports {name} (allowed in: {', '.join(homes) or 'no package'})")
    assert not faults, "\n".join(faults)


def test_third_parties_are_declared() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for line in lines}
    used = {top(found.module) for source in modules().values() if not source.compiled for found in source.imports}
    assert not used - KNOWN - declared


def import_graph() -> dict[str, set[str]]:
    """The imports between our modules: at the top of a module, under TYPE_CHECKING, and inside functions."""
    known = {source.module: source for source in sources(*PACKAGES, "bench") if source.path.suffix != ".pxd"}
    return {
        module: {found.module for found in source.imports if found.module in known and found.module != module}
        for module, source in known.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """The sets of modules that import each other, directly or through others; each sorted."""
    left = {module: set(imported) for module, imported in graph.items()}
    found = []
    while left:
        try:
            list(TopologicalSorter(left).static_order())
            break
        except CycleError as error:
            circle = _strongly_connected(left, error.args[1][0])
            found.append(tuple(sorted(circle)))
            left = {module: imported - circle for module, imported in left.items() if module not in circle}
    return sorted(found)


def _strongly_connected(graph: Mapping[str, set[str]], start: str) -> set[str]:
    backward: dict[str, set[str]] = {}
    for module, imported in graph.items():
        for each in imported:
            backward.setdefault(each, set()).add(module)
    return _reached(graph, start) & _reached(backward, start)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting.extend(new)
    return seen


def test_no_import_circle() -> None:
    found = circles(import_graph())
    assert not found, "\n".join(" <-> ".join(circle) for circle in found)


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(graph) == [("a", "b", "c"), ("d", "e")]


def undecided(deciding: tuple[str, ...], known: Mapping[str, Source]) -> list[str]:
    """Return faults of deciding modules: those that are missing, or use a loop, the time or randomness."""
    faults = [f"{module}: there is no such module" for module in deciding if module not in known]
    for module in deciding:
        for found in known[module].imports if module in known else ():
            if not found.typing_only and (top(found.module) in UNDECIDED or found.module in UNDECIDED):
                faults.append(f"{module}: imports {found.module}")
    return faults


def test_what_decides_knows_no_event_loop() -> None:
    assert not undecided(DECIDING, modules())


def test_a_name_that_is_gone_and_a_loop_in_what_decides_are_seen() -> None:
    known = modules()
    assert undecided(("engine.flow.window",), known) == ["engine.flow.window: there is no such module"]
    assert "engine.state.retry: imports asyncio" in undecided(("engine.state.retry",), known)


def test_importing_the_engine_is_light() -> None:
    """No third party, and nothing of what only some runs need, is loaded by `import engine`."""
    script = "import sys; before = set(sys.modules); import engine; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    strangers = {top(name) for name in loaded} - sys.stdlib_module_names - {"engine", "_native"}
    strangers = {name for name in strangers if not name.startswith("_cython_") and name != "cython_runtime"}
    assert not strangers, "import it where it is used"
    heavy = ("engine.cli", "engine.testing", "engine.kafka", "multiprocessing", "sqlite3", "http", "urllib.request", "xml", "unittest")
    assert not [name for name in loaded if name in heavy]


def test_the_table_names_each_unit_once() -> None:
    units = [unit for layer in LAYERS for unit in layer]
    assert len(units) == len(set(units))
