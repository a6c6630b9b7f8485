"""The rules of a topology (GRP-5), as pure functions that return faults: texts that name the place and the fix."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from engine.api.grouping import Custom, Direct, FieldsGrouping, PartialKey
from engine.config import Config
from engine.errors import TopologyError, UsageError
from engine.names import is_reserved, is_writable, nearest
from engine.raised import raised_text
from engine.topology.spec import ComponentSpec, Subscription, Topology

NO_SPOUT: Final = "no spout: nothing would ever be emitted. Add one with set_spout()."


def validate_run(topology: Topology, config: Config) -> None:
    """Raise TopologyError where a topology cannot run with this config; called again when a run starts."""
    faults = run_faults(topology, config)
    if faults:
        raise TopologyError(faults, topology_name=topology.name)


def config_of_run(function: str, topology: object, config: object) -> Config:
    """Return the config of a run: the one it was given, else the topology's, else the defaults; UsageError for what is none."""
    if not isinstance(topology, Topology):
        raise UsageError(f"{function}() needs a topology, not {topology!r}", hint="Pass what TopologyBuilder.build() returned.")
    if config is None:
        return topology.config or Config()
    if not isinstance(config, Config):
        hint = "Write Config(burst=64)" + (", or Config.from_mapping(...)." if isinstance(config, Mapping) else ".")
        raise UsageError(f"{function}() needs a Config, not {config!r}", hint=hint)
    return config


def id_faults(kind: str, component_id: object) -> Iterator[str]:
    """Yield what is wrong with a user's component id."""
    if not isinstance(component_id, str) or not component_id:
        yield f"{kind} {component_id!r}: an id must be a non-empty str. Fix set_{kind}()."
    elif not is_writable(component_id):
        yield f"{kind} {component_id!r}: an id must be text that can be written as UTF-8. Fix set_{kind}()."
    elif is_reserved(component_id):
        yield f"{kind} {component_id!r}: ids that begin with '__' or '$' are the engine's own. Rename it."


def graph_faults(topology: Topology, unknown: Collection[str] = ()) -> list[str]:
    """Return the faults that no config can mend; of the components in `unknown` the streams are not known, so they are not judged."""
    faults = [] if topology.spouts else [NO_SPOUT]
    for spec in topology.components.values():
        faults.extend(_input_faults(spec, topology.components, unknown))
    faults.extend(_adapted_batches(spec) for spec in topology.spouts if topology.prepares and spec.settings.max_spout_pending == "auto")
    return [*faults, *_state_graph_faults(topology), *_batch_faults(topology), *_flow_faults(topology)]


def _named_wrongly(where: str, subscription: Subscription) -> Iterator[str]:
    """Yield where a subscription names its source, stream or fields by something that is no str."""
    method = subscription.grouping.method
    named: list[tuple[str, object]] = [("component", subscription.source), ("stream", subscription.stream)]
    if isinstance(subscription.grouping, (FieldsGrouping, PartialKey)):
        named.extend(("field", name) for name in subscription.grouping.names)
    for what, name in named:
        if not isinstance(name, str):
            yield f"{where}: {method}() names a {what} by {name!r} ({type(name).__name__}). Name it by a str."


def run_faults(topology: Topology, config: Config) -> list[str]:
    """Return the faults of a topology with this config: unbounded cycles, more tasks than key groups, what state does not go with."""
    found = [*_key_group_faults(topology, config), *_cycle_faults(topology, config), *_state_faults(topology, config)]
    found += [*_position_faults(topology, config), *_adapted_faults(topology, config)]
    if topology.prepares is not None and config.acker_executors == 0:
        found.append("a transactional topology needs tracked tuples, and acker_executors=0 switches tracking off. Leave it at 1.")
    if config.standby and not topology.keeps_something:
        found.append("standby=True waits for the process that has the topology's state, and this topology keeps none. Leave it at False.")
    return found


def _position_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield which spouts cannot know how far everything is done (FC-6)."""
    for spec in topology.spouts:
        if spec.keeps_position and config.acker_executors == 0:
            yield f"{_where(spec)}: needs tracked tuples, and acker_executors=0 switches tracking off. Leave it at 1."


def _flow_faults(topology: Topology) -> Iterator[str]:
    """Yield which spouts that choose a task do not have the one bolt to choose in (FC-1)."""
    for spec in topology.spouts:
        takers = [repr(target) for target in topology.targets(spec.component_id)]
        if spec.feeds_one_bolt and len(takers) != 1:
            yield (
                f"{_where(spec)}: sends each record to one task of one bolt, and {' and '.join(takers) or 'nobody'} "
                f"subscribe{'s' * (not takers)} to it. Subscribe one bolt by direct_grouping(); it may emit to others."
            )
    for spec in topology.bolts:
        if spec.takes_packs:
            yield from _foreign_inputs(topology, spec)


def _foreign_inputs(topology: Topology, spec: ComponentSpec) -> Iterator[str]:
    """Yield what a bolt gets that takes packs of records alone."""
    where = _where(spec)
    for subscription in spec.subscriptions:
        is_named = not any(_named_wrongly(where, subscription))  # else it is among the faults already
        source = topology.components.get(subscription.source) if is_named else None
        if source is not None and not source.feeds_one_bolt:
            yield (
                f"{where}: takes the packs of a FlowControlSpout and nothing else, and subscribes to {source.kind} "
                f"{source.component_id!r}. Derive it from Bolt or BasicBolt, or give it a bolt of its own."
            )
    if spec.settings.tick_tuple_freq_secs is not None:
        yield (
            f"{where}: takes the packs of a FlowControlSpout and no ticks, and has tick_tuple_freq_secs. "
            "Leave it out, and let self.context.create_task(...) do what is to be done by time; or derive it from Bolt."
        )


def _adapted_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield where max_spout_pending="auto" cannot work with this config (FC-8)."""
    adapted = [spec for spec in topology.spouts if spec.pending_bound(config) == "auto"]
    if adapted and config.acker_executors == 0:
        yield (
            f"{_where(adapted[0])}: max_spout_pending='auto' goes by the acks of open trees, and with acker_executors=0 there are none. "
            "Set Config(acker_executors=1), or leave max_spout_pending out."
        )
    if topology.prepares is not None:
        yield from (_adapted_batches(spec) for spec in adapted if spec.settings.max_spout_pending is None)


def _adapted_batches(spec: ComponentSpec) -> str:
    """Return why a transactional spout cannot have max_spout_pending="auto"."""
    return (
        f"{_where(spec)}: max_spout_pending='auto' bounds open trees, and in a transactional topology it is the number of batches at once. "
        "Give a number, or leave it out (1)."
    )


def _batch_faults(topology: Topology) -> Iterator[str]:
    """Yield which batch bolts stand where there are no batches."""
    if topology.prepares is not None:
        return
    for spec in topology.bolts:
        if spec.is_batched:
            yield f"{_where(spec)}: is a batch bolt, and there are no batches here. Build it with TransactionalTopologyBuilder."


def _state_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield which settings stateful bolts do not go with (GRP-5, CP-3)."""
    stateful = [spec for spec in topology.bolts if spec.keeps_state]
    if not stateful:
        return
    names = ", ".join(repr(spec.component_id) for spec in stateful)
    if config.acker_executors == 0:
        yield f"{_where(stateful[0])}: state needs tracked tuples, and acker_executors=0 switches tracking off. Leave it at 1."
    if 3 * config.state_checkpoint_interval_ms > config.message_timeout_secs * 1000:
        yield (
            f"stateful bolts ({names}): state_checkpoint_interval_ms={config.state_checkpoint_interval_ms:g} is more than a third of "
            f"message_timeout_secs={config.message_timeout_secs:g}; acks wait for a checkpoint, and trees would time out. "
            "Lower the one, or raise the other."
        )


def _state_graph_faults(topology: Topology) -> Iterator[str]:
    """Yield what no config makes go together with state (GRP-5, CP-3)."""
    stateful = [spec for spec in topology.bolts if spec.keeps_state]
    if not stateful:
        return
    names = ", ".join(repr(spec.component_id) for spec in stateful)
    for edge in sorted(topology.closing_edges()):
        cycle = _path(topology, edge[1], edge[0])
        yield f"stateful bolts ({names}): a barrier cannot pass the cycle {_arrows(cycle)}. Take the cycle out, or keep no state."
    for spec in stateful:
        if spec.settings.concurrency != 1 or spec.settings.threads:
            yield f"{_where(spec)}: a stateful bolt takes one input at a time. Remove concurrency= or threads=."


def _input_faults(spec: ComponentSpec, components: Mapping[str, ComponentSpec], unknown: Collection[str]) -> Iterator[str]:
    where = _where(spec)
    if spec.kind == "spout" and spec.subscriptions:
        yield f"{where}: a spout takes no input, but it subscribes to {spec.subscriptions[0].source!r}. Remove that, or write a bolt."
        return
    seen: dict[tuple[str, str], Subscription] = {}
    for subscription in spec.subscriptions:
        wrong = list(_named_wrongly(where, subscription))
        if wrong:
            yield from wrong
            continue
        source = components.get(subscription.source)
        earlier = seen.setdefault((subscription.source, subscription.stream), subscription)
        if source is None:
            yield _unknown_component(where, subscription, components)
            continue
        if earlier is not subscription:
            yield (
                f"{where}: subscribes to stream {subscription.stream!r} of {subscription.source!r} twice ({earlier.grouping.label}, "
                f"{subscription.grouping.label}), so it would get each tuple twice. Keep one grouping."
            )
        yield from _grouping_faults(where, subscription)
        if subscription.source not in unknown:
            yield from _stream_faults(where, subscription, source)


def _unknown_component(where: str, subscription: Subscription, components: Mapping[str, ComponentSpec]) -> str:
    near = nearest(subscription.source, components)
    fix = f"Did you mean {near!r}?" if near else f"Fix {subscription.grouping.method}() or declare {subscription.source!r}."
    return f"{where}: there is no component {subscription.source!r} (there are: {', '.join(components)}). {fix}"


def _grouping_faults(where: str, subscription: Subscription) -> Iterator[str]:
    """Yield what is wrong with the grouping itself."""
    grouping = subscription.grouping
    if isinstance(grouping, (FieldsGrouping, PartialKey)) and not grouping.names:
        yield f"{where}: {grouping.method}({subscription.source!r}) names no field. Name at least one."
    if isinstance(grouping, Custom):
        try:
            is_factory = grouping.is_factory
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's own; it becomes a fault
            yield f"{where}: custom_grouping() was given what raised {raised_text(error)} when it was looked at. Correct it."
            return
        if isinstance(grouping.grouping, type) and not hasattr(grouping.grouping, "choose_tasks"):
            yield f"{where}: custom_grouping() was given {grouping.grouping.__name__}, which has no choose_tasks(). Define it."
        elif is_factory and not callable(grouping.grouping):
            yield (
                f"{where}: custom_grouping() was given {grouping.grouping!r}, which has no choose_tasks() and makes nothing. "
                "Pass a CustomGrouping, its class, or a callable that returns one."
            )


def _stream_faults(where: str, subscription: Subscription, source: ComponentSpec) -> Iterator[str]:
    """Yield what is wrong between a subscription and the stream that it names."""
    grouping = subscription.grouping
    stream = f"stream {subscription.stream!r} of {source.component_id!r}"
    fields = source.streams.get(subscription.stream)
    if fields is None:
        there = f"it has: {', '.join(source.streams)}" if source.streams else "it declares none"
        yield (
            f"{where}: {source.component_id!r} has no stream {subscription.stream!r} ({there}). "
            f"Fix {grouping.method}() or {source.fields_declared_at}."
        )
        return
    if isinstance(grouping, (FieldsGrouping, PartialKey)):
        for name in dict.fromkeys(grouping.names):
            if name not in fields:
                there = f"it has: {', '.join(fields)}" if len(fields) else "it has none"
                yield f"{where}: {stream} has no field {name!r} ({there}). Fix {grouping.method}() or {source.fields_declared_at}."
    if isinstance(grouping, Direct) and not fields.direct:
        yield f"{where}: direct_grouping() on {stream}, which is not direct. Fix the grouping, or declare Fields(..., direct=True)."
    elif fields.direct and not isinstance(grouping, Direct):
        fix = (
            "direct_grouping(): the spout chooses the task"
            if source.feeds_one_bolt
            else "direct_grouping(), or declare it without direct=True"
        )
        yield f"{where}: {grouping.method}() on {stream}, which is direct. Use {fix}."


def _key_group_faults(topology: Topology, config: Config) -> Iterator[str]:
    for spec in topology.bolts:
        grouped = any(isinstance(subscription.grouping, FieldsGrouping) for subscription in spec.subscriptions)
        if grouped and spec.parallelism > config.key_groups:
            yield (
                f"{_where(spec)}: parallelism {spec.parallelism} is above key_groups ({config.key_groups}), so behind its fields grouping "
                f"some tasks would get nothing. Lower it, or set Config(key_groups={spec.parallelism}) or more."
            )


def _cycle_faults(topology: Topology, config: Config) -> Iterator[str]:
    """Yield, for each spout that feeds a cycle, what leaves the tuples in that cycle without a bound (BP-5)."""
    cycles = [(source, _path(topology, target, source)) for source, target in _in_order(topology)]
    if cycles and config.acker_executors == 0:
        yield (
            f"cycle {_arrows(cycles[0][1])}: with acker_executors=0 nothing bounds the tuples in it. "
            "Set Config(acker_executors=1), or take the cycle out."
        )
        return
    for spec in topology.spouts:
        if spec.pending_bound(config) is not None:
            continue
        fed = next((path for source, path in cycles if _path(topology, spec.component_id, source)), None)
        if fed is not None:
            yield (
                f"{_where(spec)}: feeds the cycle {_arrows(fed)} without max_spout_pending, so nothing bounds the tuples in it. "
                f"Fix set_spout({spec.component_id!r}, ..., max_spout_pending=1000) or Config(max_spout_pending=1000)."
            )


def _in_order(topology: Topology) -> list[tuple[str, str]]:
    position = {component_id: index for index, component_id in enumerate(topology.components)}
    return sorted(topology.closing_edges(), key=lambda edge: (position[edge[0]], position[edge[1]]))


def _path(topology: Topology, start: str, end: str) -> tuple[str, ...]:
    """Return a shortest path along the edges, both ends included; empty where there is none."""
    came_from: dict[str, str | None] = {start: None}
    queue = [start]
    for current in queue:
        if current == end:
            break
        for target in topology.targets(current):
            if target not in came_from:
                came_from[target] = current
                queue.append(target)
    if end not in came_from:
        return ()
    path: list[str] = []
    step: str | None = end
    while step is not None:
        path.append(step)
        step = came_from[step]
    return tuple(reversed(path))


def _arrows(path: tuple[str, ...]) -> str:
    return " → ".join(map(repr, (*path, path[0])))


def _where(spec: ComponentSpec) -> str:
    return f"{spec.kind} {spec.component_id!r}"
