"""Pytest plugin: orders and groups the tests, reports the time of each folder, and names the servers that are missing.

Three tiers: `make test` leaves out the tests marked `deep`, `make test-all` runs them too, `make test-soak` runs those marked `soak`.
See "Tests" in docs/CONTRIBUTING.md.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.budgets import BUDGETS, TIERS
from tests.servers.required import MISSES

TIER: Final = "TEST_TIER"
"""Environment variable: `make test` and `make test-all` set it to the name of their tier."""
GROUPS: Final = {
    "tests/examples/test_log_etl_run.py": "a run of the example",
    "tests/kafka/test_bad_input_rights.py": "a broker with rights",
    "tests/kafka/test_sink_faults.py": "a strict broker",
    "tests/servers/test_spark.py::test_a_session_": "a session",
    "tests/spark_bridge/pipeline/": "a child with a session",
    "tests/spark_bridge/process/test_exit_reasons.py": "a child with a session",
    "tests/spark_bridge/process/test_spark_child.py": "a child with a session",
    "tests/spark_bridge/sinks/": "a session",
    "tests/spark_bridge/source/test_with_spark.py": "a session",
    "tests/spark_bridge/topology/test_classes_of_files.py::test_values_of_a_topology_file_cross_a_real_spark": "a child with a session",
    "tests/spark_bridge/topology/test_dying_workers.py": "a child with a session",
    "tests/spark_bridge/topology/test_hanging_on_spark.py": "a child with a session",
    "tests/spark_bridge/topology/test_kafka_sources.py::test_a_broker_that_restarts": "a child with a session",
    "tests/spark_bridge/topology/test_kafka_sources.py::test_the_same_on_executors": "a child with a session",
    "tests/spark_bridge/topology/test_on_spark.py": "a child with a session",
    "tests/spark_bridge/topology/test_printing.py": "a child with a session",
    "tests/spark_bridge/topology/test_probe.py::test_a_module_that_executors_lack": "a child with a session",
    "tests/spark_bridge/topology/test_stores.py": "a child with a session",
    "tests/spark_bridge/transform/test_spark_transform.py": "a child with a session",
    "tests/web/test_page": "a browser",
}
"""By path: the server or JVM that tests share within one process. One worker runs all of them."""
DEFAULT_TIMEOUT_SECS: Final = 120.0
SMALL: Final = 5
"""`make test` draws one case in so many of a random campaign."""


def cases(full: int) -> int:
    """Return the number of cases that a random campaign draws: `full`, or fewer in `make test`."""
    return max(full // SMALL, 1) if os.environ.get(TIER) == "test" else full


class GroupScheduling(LoadScopeScheduling):
    """Sends each group of `GROUPS` to one worker, and any other test to the next free worker."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for path, group in GROUPS.items() if nodeid.startswith(path)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Distribute by groups, whatever `--dist` says: xdist's own groups need the ids of an older pytest."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first: a long test that begins last keeps one worker busy while the others are idle."""
    items.sort(key=_longest_secs, reverse=True)


def _longest_secs(item: pytest.Item) -> float:
    """Return the time limit of a test; a test that takes long has set one."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None else DEFAULT_TIMEOUT_SECS


class FolderTimes:
    """Adds up the time of the tests by folder of `tests/`, in the process that reports."""

    def __init__(self, tier: str | None) -> None:
        self._tier = tier
        self._secs: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of one phase of one test; note the reason of a test that misses a server."""
        folder = "/".join(report.nodeid.split("::")[0].split("/")[1:-1]) or "."
        self._secs[folder.split("/")[0]] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple) and MISSES in report.longrepr[2]:
            self._missing[report.longrepr[2].partition(MISSES)[2]] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line for the tests that miss a server, and the times of the folders of a tier."""
        if self._missing:
            reasons = "; ".join(f"{reason} ({count})" for reason, count in self._missing.most_common())
            terminalreporter.write_line(f"{self._missing.total()} tests were skipped, what they need is missing here: {reasons}")
        if self._tier in TIERS:
            terminalreporter.section(f"seconds of each folder, {self._tier}")
            for line in self._lines():
                terminalreporter.write_line(line)

    def _lines(self) -> Iterator[str]:
        for folder, secs in self._secs.most_common():
            budget = BUDGETS.get(folder, (0, 0))[TIERS.index(str(self._tier))]
            told = f"{folder:15}{secs:7.0f} of {budget}"
            if secs > budget:
                yield f"{told}   OVER ITS BUDGET: make its tests faster, mark some `deep` or `soak`, or raise it in tests/budgets.py"
            elif secs > 5:
                yield told


def pytest_configure(config: pytest.Config) -> None:
    """Report from the one process that hears of all tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderTimes(os.environ.get(TIER)), "folder-times")
