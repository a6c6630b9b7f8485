"""One run has one clock and one seed: who else reads time or draws randomness (DESIGN: a seed replays a run)."""

import ast
import re
from collections.abc import Iterator

from tests.project.sources import Source, sources

# file: why it may.
ALLOWED = {
    "engine/api/context.py": "names the class of a task's generator, and draws nothing",
    "engine/clock.py": "the one place that reads time",
    "engine/randomness.py": "the one place that draws from the operating system",
    "engine/runtime/processes/program_state.py": "lets a child know the time zone of the program",
    "engine/web/access_token.py": "a token is secret, and no part of what a seed replays",
    "_native/ids.pyx": "seeds itself from the operating system where it is given no seed",
}

# The loop of `engine.testing` is the clock of its runs.
LOOP_IS_THE_CLOCK = "engine/testing/"

MODULES = {"time", "random", "secrets"}
NAMES = {
    "os": {"urandom", "getrandom", "times"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "loop": {"time"},
    "_loop": {"time"},
}
CYTHON = re.compile(
    r"^\s*(c?import|from)\s+(time|random|secrets|libc\.time|posix\.time)\b|\b(clock_gettime|gettimeofday|getrandom|urandom|s?rand|uuid4)\s*\("
)


def violations(source: Source) -> Iterator[str]:
    if source.compiled:
        for number, line in enumerate(source.text.splitlines(), 1):
            if CYTHON.search(line.split("#")[0]):
                yield f"{source.name}:{number}: {line.strip()}"
        return
    for found in source.imports:
        if found.module in MODULES and not found.typing_only:
            yield f"{source.name}:{found.line}: imports {found.module}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if owner.endswith("loop") and source.name.startswith(LOOP_IS_THE_CLOCK):
                continue
            if node.attr in NAMES.get(owner, ()):
                yield f"{source.name}:{node.lineno}: {owner}.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module in NAMES:
            for alias in node.names:
                if alias.name in NAMES[node.module]:
                    yield f"{source.name}:{node.lineno}: imports {node.module}.{alias.name}"


def test_only_the_clock_and_the_generator_know_time_and_chance() -> None:
    judged = [source for source in sources("_native", "engine", "spark_bridge") if source.name not in ALLOWED]
    faults = [fault for source in judged for fault in violations(source)]
    assert not faults, "take the time from the run's clock, randomness from the run's generator:\n" + "\n".join(faults)


def test_every_allowed_file_needs_it() -> None:
    present = {source.name: source for source in sources("_native", "engine")}
    assert not [name for name in ALLOWED if name in present and not any(violations(present[name]))]
