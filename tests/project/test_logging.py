"""The engine logs by `EngineLogger`, which cannot raise into it (RUN-6)."""

import ast
from collections.abc import Iterator

from tests.project.sources import Source, sources

# file: why it may.
ALLOWED = {
    "engine/log.py": "defines EngineLogger, and configures the logging of the command line",
    "engine/runtime/processes/task_plan.py": "reads the levels of the program's loggers for a child",
    "engine/runtime/processes/relay.py": "sets these levels in the child, and sends what the program logs there",
    "engine/runtime/processes/child_log.py": "takes the handlers of the program's loggers away in the child",
    "engine/web/application.py": "shows and sets the level of a logger that the program names",
    "engine/cli/kafka_command.py": "silences the client for a while, and logs nothing",
    "engine/state/zookeeper/link.py": "gives a silent logger to the client, and logs nothing",
}
LOGS = {"getLogger", "makeLogRecord", "debug", "info", "warning", "error", "critical", "exception", "log"}


def logging_calls(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "logging" and node.attr in LOGS:
            yield f"{source.name}:{node.lineno}: logging.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "logging":
            yield f"{source.name}:{node.lineno}: imports from logging"


def test_the_engine_logs_by_its_own_loggers() -> None:
    judged = [source for source in sources("engine", "spark_bridge") if not source.compiled and source.name not in ALLOWED]
    faults = [fault for source in judged for fault in logging_calls(source)]
    assert not faults, "write LOGGER: Final = EngineLogger('engine.…'), from engine.log:\n" + "\n".join(faults)


def test_every_allowed_file_needs_it() -> None:
    present = {source.name: source for source in sources("engine", "spark_bridge")}
    assert not [name for name in ALLOWED if name not in present or not any(logging_calls(present[name]))]
