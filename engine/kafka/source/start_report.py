"""Counts and reports what a spout must know about the start positions of its partitions (KS-5, KS-7, KS-15)."""

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.errors import KafkaWarning, Report, lost_offsets_warning
from engine.kafka.client.partition import PartitionId, offsets_text
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.start_positions import StartPosition
from engine.kafka.source.undecodable import set_position


class StartReport:
    """Reports of one spout task. Each other topology in the group is reported once."""

    def __init__(self, config: KafkaSpoutConfig, context: TaskContext, report: Report) -> None:
        self._config, self._report = config, report
        self._topology, self._component_id = context.topology_name, context.component_id
        self._dropped = context.counter("kafka_acked_set_dropped")
        self._out_of_range = context.counter("kafka_out_of_range")
        self._reported_topologies: set[str] = set()

    def note_start(self, partition: PartitionId, start: StartPosition) -> None:
        """Count and report facts about a start position. Raise FatalError for `out_of_range="fail"`."""
        self._dropped.add(start.dropped)
        if start.missing is not None:
            self._note_loss(partition, start, start.missing)
        if start.foreign is not None and start.foreign not in self._reported_topologies:
            self._reported_topologies.add(start.foreign)
            text = f"{partition} of group {self._config.group!r} was committed by topology {start.foreign!r}"
            hint = "Two topologies in one group share its records. Give each topology its own group."
            self._report(KafkaWarning(text, hint=hint))
        if start.unsure is not None and start.unsure not in self._reported_topologies:
            self._reported_topologies.add(start.unsure)
            text = (
                f"{partition} of group {self._config.group!r} was committed by an older version, which shortened the name {start.unsure!r}"
            )
            hint = "This topology may be another one, so the acked set is not used. The next commit has the full name."
            self._report(KafkaWarning(text, hint=hint))

    def _note_loss(self, partition: PartitionId, start: StartPosition, missing: int) -> None:
        self._out_of_range.add(1)
        has = offsets_text(start.first, start.last)
        if start.divergence is not None:
            text, warning = start.divergence.text(partition, missing), start.divergence.warning(partition, missing, start.offset)
        else:
            text = f"{partition}: offset {missing} does not exist; the broker has {has}"
            warning = lost_offsets_warning(text, missing, start.offset)
        if start.ends_run:
            command = set_position(self._topology, self._component_id, partition, start.offset)
            text += f"; the broker has {has}" if start.divergence is not None else ""
            hint = f"To go on at another offset, run `{command}`, where URL is the state_provider, or write on_lost='skip'."
            raise FatalError(f"{text}. The state contains what was read before", hint=hint)
        if self._config.out_of_range == "fail":
            raise FatalError(text, hint="Write out_of_range='earliest' or 'latest' to continue, or reset the group's offsets.")
        self._report(warning)
