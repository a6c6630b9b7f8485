"""From records to the tuples of a batch."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from engine.errors import FatalError
from engine.kafka.source.translate import ToStream, translator_error, translator_text
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.names import DEFAULT_STREAM
from engine.raised import raised_text
from engine.transactional import BatchCollector


class Translating:
    """Emits what the translator makes of records; `dropped` counts those that it could not read."""

    def __init__(self, config: KafkaBatchSpoutConfig, dropped: Any) -> None:
        self._translate = config.translator
        self._drops = config.on_unreadable == "drop"
        self._dropped = dropped

    def emit(self, records: Sequence[Any], collector: BatchCollector) -> None:
        """Emit the tuples of records, in order; FatalError for one that cannot be read and is not to be dropped."""
        try:
            made = [values for values in map(self._translate, records) if values is not None]
        except Exception:  # noqa: BLE001 - found again, and told with its place
            made = list(self._one_by_one(records, collector))
        if ToStream not in set(map(type, made)):
            collector.emit_many(made)
            return
        for stream, group in groupby(made, _stream_of):
            collector.emit_many([one.values if isinstance(one, ToStream) else one for one in group], stream)

    def _one_by_one(self, records: Sequence[Any], collector: BatchCollector) -> Any:
        for record in records:
            try:
                values = self._translate(record)
            except Exception as error:
                if not self._drops:
                    hint = "Have it return None for what is to be skipped, or write on_unreadable='drop'."
                    raise FatalError(translator_text(record, raised_text(error)), hint=hint) from error
                self._dropped.add(1)
                collector.report_error(translator_error(record, error, ". The record is dropped"))
                continue
            if values is not None:
                yield values


def _stream_of(made: Any) -> str:
    return made.stream if isinstance(made, ToStream) else DEFAULT_STREAM
