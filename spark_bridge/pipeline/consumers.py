"""Whether a folder keeps for a pipeline's queries what they need, and whose checkpoints are in a folder."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from spark_bridge.handover import Contract, Handover, Storage
from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.pipeline.errors import PipelineRefused

OWNER: Final = "stormcell.json"
KIND: Final = "checkpoints"
COMMAND: Final = "python -m spark_bridge consumers"


def check_declared(handover: Handover, queries: Collection[str]) -> Iterator[str]:
    """Raise PipelineRefused where a query is no consumer of the folder; yield what a person should know of the others."""
    folder, declared = handover.storage.url, handover.consumer_names()
    missing = [name for name in queries if name not in declared]
    if missing:
        queries_text = "query" if len(missing) == 1 else "queries"
        has = f"it has {', '.join(map(repr, declared))}" if declared else "it has none"
        raise PipelineRefused(
            f"the hand-over {folder} does not know the consumer of {queries_text} {', '.join(map(repr, missing))} ({has}): "
            "what others have committed would be deleted before it is read",
            hint="Declare it on SparkHandover, or call the query like a consumer that is there, or: "
            + " && ".join(f"{COMMAND} {folder} add {name}" for name in missing),
        )
    for name in declared:
        if name not in queries:
            yield (
                f"consumer {name!r} of {folder} is no query of this pipeline: unless another one reads as it, batches pile up, and "
                f"then the engine waits. To remove it: {COMMAND} {folder} remove {name}"
            )


def claim_checkpoints(storage: Storage, contract: Contract) -> None:
    """Note whose checkpoints a folder has; raise PipelineRefused where they are those of another hand-over."""
    mine = {"topology": contract.topology, "component": contract.component}
    content = storage.read(OWNER)
    if content is None:
        storage.make_folder("")
        storage.create(OWNER, encode(KIND, mine))
        content = storage.read(OWNER) or b""
    found: Mapping[str, Any] = decode(content, KIND, f"{storage.url}: {OWNER!r}")
    if found != mine:
        raise PipelineRefused(
            f"the checkpoints {storage.url} are of a pipeline behind {found.get('topology')!r} ({found.get('component')!r}), "
            f"and the hand-over is of {contract.topology!r} ({contract.component!r})",
            hint="Give each pipeline a folder of its own: --checkpoints.",
        )
