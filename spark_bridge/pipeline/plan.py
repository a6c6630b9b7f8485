"""Creates the writers of a pipeline's queries from the user's function. Runs in Spark's process."""

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from spark_bridge.handover import HandoverError
from spark_bridge.handover.names import consumer_file
from spark_bridge.pipeline.definition import Definition, PipelineSettings, load_pipeline
from spark_bridge.pipeline.errors import PipelineFileError
from spark_bridge.pipeline.faults import fault_of_error
from spark_bridge.pipeline.offsets import with_txid

Writer: TypeAlias = Any
"""A DataStreamWriter, classic or of Spark Connect."""
FORMAT: Final = "stormcell"


class Plan:
    """Queries of a pipeline. Each start creates a query anew from the user's function."""

    def __init__(self, spark: Any, settings: PipelineSettings) -> None:
        self._spark = spark
        self._settings = settings
        self._definition = _load_definition(settings)
        self.names: tuple[str, ...] = tuple(self._writers(None)) if self._definition.kind == "stream" else (self._definition.name,)
        for name in self.names:
            _check_name(name)

    def start_query(self, name: str) -> Any:
        """Start a query and return it. Raises any error of Spark."""
        writer = self._writers(name)[name] if self._definition.kind == "stream" else self._batch_writer(name)
        return writer.queryName(name).option("checkpointLocation", self._settings.checkpoint(name)).start()

    def _stream(self, consumer: str | None) -> Any:
        reader = self._spark.readStream.format(FORMAT).options(**self._settings.options)
        return (reader if consumer is None else reader.option("consumer", consumer)).load(self._settings.folder)

    def _batch_writer(self, name: str) -> Writer:
        call = functools.partial(with_txid, self._definition.function, self._settings.checkpoint(name))
        return self._stream(name).writeStream.foreachBatch(call)

    def _writers(self, consumer: str | None) -> Mapping[str, Writer]:
        """Call the user's function. Spark runs only the plans whose writer is started."""
        stream = self._stream(consumer)
        try:
            returned = self._definition.function(stream)
        except Exception as error:
            fault = fault_of_error(error)
            raise PipelineFileError(f"{self._settings.name} raised an error in its function: {fault.text}", hint=fault.hint) from error
        writers = returned if isinstance(returned, Mapping) else {self._definition.name: returned}
        wrong = [name for name, writer in writers.items() if not callable(getattr(writer, "queryName", None))]
        if wrong or not writers:
            what = _describe(writers[wrong[0]]) if wrong else "an empty dict"
            query = f" for query {wrong[0]!r}" if wrong and returned is writers else ""
            hint = 'Return `frame.writeStream…`, or a dict such as {"per-minute": frame.writeStream…}. Do not call start().'
            raise PipelineFileError(f"{self._settings.name}: {self._definition.function.__name__}() returned {what}{query}", hint=hint)
        return writers


def _load_definition(settings: PipelineSettings) -> Definition:
    if isinstance(settings.pipeline, Definition):
        return settings.pipeline
    before = set(sys.modules)
    definition, module = load_pipeline(settings.pipeline)
    folder = Path(module.__file__ or "").parent
    _pickle_by_value([module, *(sys.modules[name] for name in set(sys.modules) - before if _is_beside(sys.modules[name], folder))])
    return definition


def _pickle_by_value(modules: list[ModuleType]) -> None:
    """Make pickle store functions of the file, and of files beside it, by value. Executors cannot import these files."""
    from pyspark import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_beside(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return (
        file is not None and folder in Path(file).parents and "site-packages" not in file and not module.__name__.startswith("spark_bridge")
    )


def _describe(returned: object) -> str:
    return "None" if returned is None else f"a {type(returned).__name__}, which is not a writer"


def _check_name(name: object) -> None:
    try:
        consumer_file(name)  # type: ignore[arg-type]  # a user may give anything
    except HandoverError as error:
        raise PipelineFileError(f"{name!r} cannot be the name of a query", hint=error.hint) from error
