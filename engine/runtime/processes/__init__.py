"""Bolt tasks whose instances live in child processes (PR-1 to PR-3).

`process_bolt` is the actor in the run, and `child_task` runs the instance. A `FrameLink` connects them.
`batch_process` is the actor of a bolt of transactions. `fork_server` starts the processes, by requests to `fork_service` in another one.
"""

from engine.names import REPORT_STREAM
from engine.runtime.processes.batch_process import BatchProcessExecutor
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.topology import ComponentSpec


def executor_of(spec: ComponentSpec) -> type[ProcessBoltExecutor]:
    """Return the class of the actors of a component with `processes=True`."""
    return BatchProcessExecutor if REPORT_STREAM in spec.streams else ProcessBoltExecutor
