"""Checks the folders of a pipeline before it starts (declared consumers, owner of the checkpoints)."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from spark_bridge.handover import Contract, Handover, Storage
from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.pipeline.errors import PipelineRefused

OWNER: Final = "stormcell.json"
"""File in the folder of checkpoints that names their hand-over."""
KIND: Final = "checkpoints"
COMMAND: Final = "python -m spark_bridge consumers"


def check_declared(handover: Handover, queries: Collection[str]) -> Iterator[str]:
    """Raise PipelineRefused if a query is not a consumer of the folder. Yield a warning for each consumer without a query."""
    folder, declared = handover.storage.url, handover.consumer_names()
    missing = [name for name in queries if name not in declared]
    if missing:
        names = ", ".join(map(repr, missing))
        known = f"its consumers are {', '.join(map(repr, declared))}" if declared else "it has no consumers"
        raise PipelineRefused(
            f"the hand-over {folder} has no consumer {names} ({known}). "
            "Without a consumer, batches could be deleted before the query reads them",
            hint="Declare it with consumers= of SparkHandover, or give the query the name of an existing consumer, or: "
            + " && ".join(f"{COMMAND} {folder} add {name}" for name in missing),
        )
    for name in declared:
        if name not in queries:
            yield (
                f"consumer {name!r} of {folder} is not a query of this pipeline. If no other pipeline reads as {name!r}, batches pile up "
                f"and the engine will wait. To remove it: {COMMAND} {folder} remove {name}"
            )


def claim_checkpoints(storage: Storage, contract: Contract) -> None:
    """Store the owner of a folder of checkpoints. Raise PipelineRefused if another hand-over owns it."""
    mine = {"topology": contract.topology, "component": contract.component}
    content = storage.read(OWNER)
    if content is None:
        storage.make_folder("")
        storage.create(OWNER, encode(KIND, mine))
        content = storage.read(OWNER) or b""  # the entry of another process, if that process was faster
    found: Mapping[str, Any] = decode(content, KIND, f"{storage.url}: {OWNER!r}")
    if found != mine:
        raise PipelineRefused(
            f"the checkpoints {storage.url} belong to the hand-over of {found.get('topology')!r} ({found.get('component')!r}), "
            f"but this hand-over is of {contract.topology!r} ({contract.component!r})",
            hint="Give each pipeline its own folder with --checkpoints.",
        )
