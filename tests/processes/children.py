"""The children of a run by its name, seen from its own process."""

from engine.runtime.processes.forked_process import RUNNING, ForkedProcess


def children_of(topology: str) -> list[ForkedProcess]:
    """Return the processes of the bolts of all runs of a topology, also those that have just ended."""
    return [child for child in list(RUNNING) if child.name.startswith(f"{topology}/")]
