"""Registry of all works and all peers. A new work or peer is one entry here.

A work names its own run, its figures, its peers, and the servers that it needs. A run names a function, which is called in its own process.
So this module imports neither the engine nor a peer. `python -m bench` prints the registry.
"""

from collections.abc import Mapping
from typing import Any, Final

from bench.work import Argument, Figure, Peer, Run, Sweep, Work

GROUPS: Final[Mapping[str, str]] = {
    "micro": "single steps of a tuple, through their Python API",
    "macro": "whole topologies",
    "state": "costs of state: word counts on one store beside another, latency, commits, recovery, memory",
    "kafka": "a source and a sink beside other clients and engines, on one broker",
    "transactions": "batches beside single tuples, small batches, pipelining, exactly-once word counts of a topic",
    "spark": "rows handed over to Spark as Parquet, beside pyarrow alone; calls of Spark's process; latency",
    "cluster": "topologies on Spark, beside the engine on one core and PySpark by hand; costs of a batch",
    "flow": "unlike tasks beside groupings with their best windows, max_spout_pending=auto beside fixed values, the controller alone",
    "service": "requests that get the results of their own trees, in process and over HTTP",
    "compare": "the same works on peers",
}
REPORTED: Final = ("compare", "macro", "state", "kafka", "transactions", "spark", "cluster", "flow", "service")


def _run(
    function: str, quick: Mapping[str, Argument], *, package: str = "", prepare: str = "", timeout_secs: float = 180, **arguments: Any
) -> Run:
    """Return a run. `quick` holds the arguments that differ in a small run."""
    return Run(function, arguments, quick, package, prepare, timeout_secs)


def _figures(unit: str, **labels: str) -> tuple[Figure, ...]:
    """Return a figure for each key of a reading."""
    return tuple(Figure(key, label, unit) for key, label in labels.items())


def _percentiles(label: str, *shares: str) -> tuple[Figure, ...]:
    """Return figures in milliseconds for shares such as "p50"."""
    return tuple(Figure(f"{share}_ms", f"{label}, {share.replace('p999', 'p99.9')}", "ms") for share in shares)


NS: Final = _figures("ns", ns="time per unit")
PER_SECOND: Final = _figures("/s", per_second="rate")


# Single steps of a tuple


def _micro(name: str, function: str, summary: str, **labels: str) -> Work:
    """Return a work whose function is below `bench.micro`."""
    return Work("micro", name, summary, _run(f"bench.micro.{function}", {"calls": 2_000}, calls=200_000), _figures("ns", **labels))


MICRO: Final = (
    _micro("edge-ids", "native:edge_ids", "draw a random id", draw="draw"),
    _micro("hash", "native:hashing", "stable hash of a key", str="str", int="int", tuple="(str, int)", key_group="key group of a str"),
    _micro("mailbox-hop", "native:mailbox_hop", "post and take", hop_empty="hop, empty", hop_256="hop, 256 waiting", signal="signal"),
    _micro("rotating-map", "native:rotating_map", "1,000 keys", put="put", get="get", rotate_empty="rotate, mostly empty"),
    _micro("ledger", "native:ledger", "1,000 open trees", tree="init and ack", rotate_per_tree="rotate, per tree"),
    _micro("emit", "cores:emit", "emit to a mailbox", untracked="spout, untracked", tracked="spout, tracked", anchored="bolt, anchored"),
    _micro("execute", "cores:execute", "take up, execute, ack", ack="execute is the ack", function_ack="execute is a function that acks"),
    _micro("acker", "cores:acker", "an acker's signals", tree="init, ack, verdict"),
    _micro(
        "state",
        "state:state",
        "state of a bolt",
        put="put, a changed key",
        get="get, a changed key",
        get_committed="get, an unchanged key",
    ),
    _micro(
        "grouping",
        "native:groupings",
        "choose one of four tasks",
        **{name: name.replace("_", "-") for name in ("shuffle", "fields", "all", "global", "partial_key", "load_aware", "custom")},
    ),
)


# Whole topologies, alone and beside peers


def _throughput(work: str) -> Run:
    return _run("bench.macro.throughput:measure", {"warm_secs": 0.3, "measured_secs": 0.5}, work=work, warm_secs=1.0, measured_secs=2.0)


def _rate(name: str, summary: str) -> Work:
    return Work("macro", name, summary, _throughput(name), NS + PER_SECOND)


MACRO: Final = (
    _rate("const-null", "const spout -> null bolt, acked"),
    _rate("const-id-null", "const spout -> id bolt -> null bolt, acked"),
    _rate("un-acked", "const spout -> null bolt, no ackers, no message ids"),
    _rate("word-count", "fixed sentence, 2 splitters, 4 counters, acked; per word"),
    _rate("fan-out", "const spout -> 10 tasks by all grouping, acked; per delivery"),
    Work(
        "macro",
        "latency",
        "spout -> id -> null at 10,000 tuples/s, open loop",
        _run("bench.macro.latency:measure", {"measured_secs": 1.0}, rate=10_000, warm_secs=1.0, measured_secs=5.0),
        _percentiles("emit to ack", "p50", "p99", "p999") + _figures("ms", due_p50_ms="due to ack, p50", due_p99_ms="due to ack, p99"),
    ),
    Work(
        "macro",
        "open-trees",
        "1,000,000 open trees, held by one bolt",
        _run("bench.macro.open_trees:measure", {"trees": 50_000}, trees=1_000_000),
        _figures("bytes/tree", bytes_per_tree="memory of the process", ledger_bytes_per_tree="memory of the ledger")
        + _figures("s", open_secs="time to open them"),
    ),
    Work(
        "macro",
        "idle",
        "8 tasks and nothing to do",
        _run("bench.macro.idle:measure", {"measured_secs": 1.0}, warm_secs=1.0, measured_secs=5.0),
        _figures("% of a core", core_percent="CPU"),
    ),
    Work(
        "macro",
        "start-up",
        "python -m engine run to the first tuple; import engine",
        _run("bench.macro.start_up:measure", {}),
        _figures(
            "ms",
            first_tuple_ms="process start to first tuple",
            import_ms="import engine",
            import_asyncio_ms="import asyncio, which is part of it",
        ),
    ),
)


def _compare(name: str, summary: str, floor_tuples: int, unit: str = "tuple") -> Work:
    """Return one work beside all peers. Peers count tuples of the spout, or lines of the word count."""

    def sized(function: str, tuples: int, lines: int, package: str = "", **arguments: Any) -> Run:
        units = lines if name == "word-count" else tuples
        return _run(f"bench.peers.{function}", {"tuples": units // 10}, package=package, work=name, tuples=units, **arguments)

    def bytewax(peer: str, note: str, tuples: int, lines: int, count_by: str = "running") -> Peer:
        batch = int(peer.split("-")[1])
        run = sized("bytewax_flows:run_work", tuples, lines, "compare/bytewax", batch=batch, count_by=count_by)
        return Peer(peer, f"batch {batch}, word count by {note}, tracks nothing; one worker", run)

    bare_loop = _run("bench.peers.bare_loop:run", {"tuples": floor_tuples // 20}, timeout_secs=600, work=name, tuples=floor_tuples)
    peers = [
        Peer("bare-loop", "the floor: callbacks, ids, ledger and hops only; one core", bare_loop, ("floor",)),
        Peer("asyncio-actors", "asyncio.Queue by hand, a dict as ledger; one core", sized("asyncio_actors:run", 300_000, 30_000)),
        bytewax("bytewax-1", "stateful_map", 150_000, 20_000),
        bytewax("bytewax-256", "stateful_map", 2_000_000, 100_000),
        bytewax("bytewax-256-logic", "a StatefulLogic of one's own", 0, 200_000, "logic"),
        bytewax("bytewax-256-final", "count_final, which adds up each batch first", 0, 200_000, "final"),
        Peer(
            "pathway",
            "streaming, tracks nothing; one worker and a reader thread",
            sized("pathway_flow:run", 100_000, 60_000, "compare/pathway"),
        ),
        Peer(
            "storm",
            "LocalCluster, JVM, uses every core",
            _run(
                "bench.peers.storm:run_work",
                {"warm_secs": 2, "measured_secs": 2},
                timeout_secs=600,
                work=name,
                warm_secs=10,
                measured_secs=10,
            ),
            ("java",),
        ),
    ]
    if name != "word-count":
        peers = [peer for peer in peers if peer.run.arguments.get("tuples") != 0]
    return Work("compare", name, summary, _throughput(name), unit=unit, peers=tuple(peers))


COMPARE: Final = (
    _compare("const-null", "const spout -> null bolt, every tree acked", 2_000_000),
    _compare("const-id-null", "const spout -> id bolt -> null bolt, every tree acked", 1_500_000),
    _compare("un-acked", "const spout -> null bolt, nothing tracked", 3_000_000),
    _compare("word-count", "fixed sentence, 2 splitters, 4 counters, one emit per word, every tree acked", 200_000, "word"),
)


# State

SERVERS: Final = ("redis", "postgres", "zookeeper")


def _needs(store: str) -> tuple[str, ...]:
    return (store,) if store in SERVERS else ()


def _word_count(store: str) -> Run:
    return _run("bench.state.word_count:measure", {"warm_secs": 0.5, "measured_secs": 2.0}, store=store, warm_secs=2.0, measured_secs=5.0)


def _beside(store: str, other: str, note: str) -> Work:
    summary = f"word count of a text, counts in {store} beside counts in {other}"
    peer = Peer(other, note, _word_count(other))
    return Work("state", f"word-count-{store}-{other}", summary, _word_count(store), unit="word", peers=(peer,), needs=_needs(store))


def _state_latency(store: str) -> Work:
    figures = _figures(
        "ms",
        added_p99_ms=f"{store}: due to ack p99, more than without state",
        due_p99_ms=f"{store}: due to ack, p99",
        p99_ms=f"{store}: emit to ack, p99",
        max_ms=f"{store}: emit to ack, longest",
        checkpoint_ms=f"{store}: the checkpoint itself",
    )
    run = _run("bench.state.latency:measure", {"measured_secs": 3.0}, store=store, measured_secs=10.0)
    return Work("state", f"state-latency-{store}", "emit to ack while 100,000 changed keys are written", run, figures, needs=_needs(store))


def _values(store: str) -> Work:
    figures = tuple(
        Figure(f"{kind}_{keys}", f"{store}: {kind} values, batches of {keys:,} keys", "keys/s")
        for kind in ("transactional", "opaque")
        for keys in (1_000, 10_000, 50_000)
    )
    run = _run("bench.state.values:measure", {"rounds": 2}, store=store, rounds=9)
    return Work("state", f"values-{store}", "keys of a map of values that are updated in a second", run, figures, needs=_needs(store))


STATE: Final = (
    _beside("memory", "none", "counts in a dict, no checkpoints, max_spout_pending 1,000"),
    _beside("sqlite", "memory", "counts in memory://, a checkpoint every second"),
    _beside("redis", "memory", "counts in memory://, a checkpoint every second"),
    *(_state_latency(store) for store in ("memory", "sqlite", "redis")),
    *(_values(store) for store in ("memory", "sqlite", "redis", "postgres")),
    Work(
        "state",
        "state-commit",
        "100,000 changed keys committed, beside the bare store",
        _run("bench.state.commit:measure", {"keys": 5_000, "rounds": 3}, keys=100_000, rounds=7),
        _figures("×", sqlite_ratio="SQLite: to its own best way", redis_ratio="Redis: to its own best way")
        + _figures("ms", sqlite_ms="SQLite: 100,000 changed keys committed", sqlite_bare_ms="SQLite alone: one pickled blob")
        + _figures("ms", redis_ms="Redis: 100,000 changed keys committed", redis_bare_ms="Redis alone: one MULTI"),
    ),
    Work(
        "state",
        "state-recovery",
        "start on 1,000,000 keys after a kill -9, SQLite",
        _run("bench.state.recovery:measure", {"keys": 200_000}, keys=1_000_000),
        _figures(
            "s",
            folded_secs="to the first tuple, 100,000 keys in a delta",
            unfolded_secs="to the first tuple, all keys in a delta",
            folded_read_secs="to read every key, after that",
            unfolded_read_secs="the same, all keys in a delta",
        ),
    ),
    Work(
        "state",
        "state-large",
        "5,000,000 keys in SQLite",
        _run("bench.state.large:measure", {"keys": 100_000}, timeout_secs=900, keys=5_000_000),
        _figures("MB", put_mb="put, most memory", change_mb="change at random, most memory", read_mb="read all, most memory")
        + _figures("keys/s", put_per_second="put, rate", change_per_second="change at random, rate", read_per_second="read all, rate"),
    ),
)


# Kafka


def _reads(function: str, records: int = 1_000_000, package: str = "", **arguments: Any) -> Run:
    """Return a run that reads the full topic of `records` records."""
    prepare, secs = "bench.kafka.topics:fill_with_records", 600
    return _run(function, {"records": records // 20}, package=package, prepare=prepare, timeout_secs=secs, records=records, **arguments)


def _appends(function: str, **arguments: Any) -> Run:
    """Return a run that fills its own topic."""
    return _run(function, {"records": 15_000}, records=300_000, **arguments)


def _kafka_latency(name: str, summary: str, reader: str) -> Work:
    run = _run("bench.kafka.latency:measure", {"measured_secs": 3.0}, reader=reader, rate=10_000, measured_secs=10.0)
    return Work("kafka", name, summary, run, _percentiles("append to ack", "p50", "p99", "p999"), needs=("kafka",))


KAFKA_FIGURES: Final = PER_SECOND + _figures(
    "s", start_secs="from the start of its process to the first record", whole_secs="from the start of its process to the last record"
)
SOURCE_PEERS: Final = (
    Peer("aiokafka", "a getmany loop on asyncio; counts the lengths of lists", _reads("bench.peers.aiokafka_clients:read_on_asyncio")),
    Peer("aiokafka-uvloop", "the same on uvloop, as the engine is", _reads("bench.peers.aiokafka_clients:read")),
    Peer(
        "bytewax",
        "its Kafka source, one worker; offsets in its recovery store; reads in C, in threads",
        _reads("bench.peers.bytewax_flows:read", package="kafka/bytewax"),
    ),
    Peer("storm", "its Kafka spout, LocalCluster, one acker; uses every core", _reads("bench.peers.storm:read", 3_000_000), ("java",)),
    Peer(
        "quixstreams",
        "one application; reads in C, in threads",
        _reads("bench.peers.quix_apps:read", 300_000, "kafka/quixstreams"),
    ),
    Peer("faust", "one agent, on uvloop", _reads("bench.peers.faust_app:read", 50_000, "kafka/faust-streaming")),
    Peer(
        "librdkafka",
        "confluent-kafka's consume; reads in C, in threads; a line of reference",
        _reads("bench.peers.librdkafka_consumer:read", package="kafka/confluent-kafka"),
    ),
)
SINK_PEERS: Final = (
    Peer(
        "aiokafka-producer",
        "send without waiting for each, then flush; on uvloop",
        _appends("bench.peers.aiokafka_clients:append", partition_turns=False),
    ),
    Peer(
        "aiokafka-producer-turns",
        "the same, told the partition of each batch",
        _appends("bench.peers.aiokafka_clients:append", partition_turns=True),
    ),
)
KAFKA: Final = (
    Work(
        "kafka",
        "kafka-source",
        "a topic read whole, every record counted at least once, offsets committed every 2 s",
        _reads("bench.kafka.source:measure"),
        KAFKA_FIGURES,
        "record",
        SOURCE_PEERS,
        ("kafka",),
    ),
    Work(
        "kafka",
        "kafka-sink",
        "records appended to 4 partitions, idempotent, acks=all",
        _appends("bench.kafka.sink:measure"),
        KAFKA_FIGURES,
        "record",
        SINK_PEERS,
        ("kafka",),
    ),
    _kafka_latency("kafka-latency", "KafkaSpout -> null bolt at 10,000 records/s, append to ack", "engine"),
    _kafka_latency("kafka-latency-aiokafka", "a getmany loop at 10,000 records/s, append to its return", "aiokafka"),
    Work(
        "kafka",
        "kafka-memory",
        "4,000,000 records and a poison one that never acks",
        _reads("bench.kafka.memory:measure", 4_000_000),
        _figures(
            "MB",
            clean_mb="most memory, nothing held back",
            bounded_mb="one poison record, bound of 100,000",
            whole_mb="one poison record, 1,000,000 held back",
        )
        + _figures("bytes", bytes_per_held="memory of a record that is held back")
        + _figures("records", beyond="records taken beyond the bound", behind="records of other partitions that did not flow"),
        needs=("kafka",),
    ),
)


# Transactions


def _batches(tuples: int, quick_tuples: int, **arguments: Any) -> Run:
    given = {"store": "memory", "take": 1000, "waits": False, **arguments}
    return _run("bench.transactions.batches:measure", {"tuples": quick_tuples}, timeout_secs=300, tuples=tuples, **given)


def _single_tuples(emit: str) -> Run:
    return _run("bench.transactions.single_tuples:measure", {"tuples": 100_000}, tuples=3_000_000, emit=emit)


def _small_batches(store: str) -> Work:
    name, summary = f"batches-of-1-{store}", f"batches of 1 tuple, 8 at once, state in {store}"
    run = _batches(20_000 if store in ("memory", "sqlite") else 10_000, 2_000, take=1, pending=8, store=store)
    return Work("transactions", name, summary, run, PER_SECOND, needs=_needs(store))


def _lines(function: str, lines: int, quick_lines: int, package: str = "", **arguments: Any) -> Run:
    prepare = "bench.kafka.topics:fill_with_lines"
    return _run(function, {"records": quick_lines}, package=package, prepare=prepare, records=lines, **arguments)


def _kafka_words(store: str) -> Work:
    def quix(name: str, note: str, *, grouped: bool) -> Peer:
        return Peer(name, note, _lines("bench.peers.quix_apps:count_words", 30_000, 2_000, "kafka/quixstreams", grouped=grouped))

    partitions = "the same without grouping: counts of each partition, which are no word count"
    return Work(
        "transactions",
        f"kafka-words-{store}",
        f"words of a topic counted exactly once in {store}, beside a peer's count from topic to topic",
        _lines("bench.transactions.kafka_words:measure", 300_000, 60_000, store=store),
        unit="word",
        peers=(
            quix("quixstreams", "exactly once, Kafka to Kafka, a checkpoint every 2 s", grouped=True),
            quix("quixstreams-by-partition", partitions, grouped=False),
        ),
        needs=("kafka", store),
    )


TRANSACTIONS: Final = (
    Work(
        "transactions",
        "batches-of-1000",
        "a global count in batches of 1,000 tuples, 2 at once, beside single tuples",
        _batches(3_000_000, 100_000, pending=2),
        peers=(
            Peer("acked", "no transactions; each tuple with a message id, acked; 1,000 open", _single_tuples("one by one")),
            Peer("acked-in-bursts", "the same, emitted by emit_many, 250 at once", _single_tuples("in bursts")),
        ),
    ),
    Work(
        "transactions",
        "pipelining",
        "batches of 1,000 tuples whose processing waits 10 ms, 4 at once, beside one at a time",
        _batches(400_000, 40_000, pending=4, waits=True),
        peers=(Peer("one-at-a-time", "the same with max_spout_pending=1", _batches(400_000, 40_000, pending=1, waits=True)),),
    ),
    *(_small_batches(store) for store in ("memory", "sqlite", "redis", "zookeeper")),
    _kafka_words("postgres"),
    _kafka_words("redis"),
)


# Spark


def _rows(function: str, **arguments: Any) -> Run:
    return _run(function, {"rows": 100_000}, timeout_secs=300, rows=2_000_000, **arguments)


def _log_lines(function: str) -> Run:
    return _run(f"bench.spark.end_to_end:{function}", {"lines": 100_000}, timeout_secs=1800, lines=5_000_000)


PYARROW: Final = Peer(
    "pyarrow", "the same tuples to the same files, column by column; not forced to the disk", _rows("bench.peers.pyarrow_files:write")
)
SPARK: Final = (
    Work(
        "spark",
        "hand-over",
        "rows of 5 columns in batches of 50,000 to Parquet and manifests, beside pyarrow writing the same files",
        _rows("bench.spark.handover:measure", drop=False),
        unit="row",
        peers=(PYARROW,),
        needs=("pyarrow",),
        without=_rows("bench.spark.handover:measure", drop=True),
    ),
    Work(
        "spark",
        "calls",
        "an empty call of Spark's process, batches of 10,000 rows through it and back, and how late the loop is meanwhile",
        _run("bench.spark.calls:measure", {"calls": 20, "rows": 20_000}, calls=300, rows=300_000),
        _figures("ms", call_p50_ms="empty call, median", call_p99_ms="empty call, p99")
        + _figures("ms", stall_p99_ms="loop late, p99", stall_max_ms="loop late, most")
        + PER_SECOND,
        needs=("spark",),
    ),
    Work(
        "spark",
        "latency",
        "from the emit of a batch of 10,000 rows to the rows counted in a running streaming query",
        _run("bench.spark.latency:measure", {"batches": 15}, timeout_secs=300, batches=60),
        _figures("ms", latency_p50_ms="median", latency_p90_ms="p90", latency_max_ms="most"),
        needs=("spark",),
    ),
    Work(
        "spark",
        "end-to-end",
        "access logs to the tables of examples/log_etl; minutes, so only if it is named",
        _log_lines("run_example"),
        PER_SECOND + _figures("s", engine_cpu_secs="CPU of the engine", spark_cpu_secs="CPU of Spark"),
        "line",
        (Peer("spark-alone", "the same queries over the same lines as text, parsed in SQL", _log_lines("run_spark_alone")),),
        ("spark",),
        only_by_name=True,
    ),
)


# Topologies on Spark


def _cluster_lines(engine: str, bolt: str) -> Run:
    sizes: dict[str, Any] = {"lines": 100_000, "warm": 2, "batches": 4}
    quick = {"lines": 2_000, "warm": 1, "batches": 2}
    return _run("bench.cluster.words:measure", quick, timeout_secs=300, engine=engine, bolt=bolt, **sizes)


def _batch_cost(function: str, timeout_secs: float = 300, **arguments: Any) -> Run:
    return _run(f"bench.cluster.batch_cost:{function}", {"warm": 2, "batches": 4}, timeout_secs=timeout_secs, **arguments)


def _growth(rows: int, tasks: int) -> Run:
    run = _batch_cost("measure_growth", 900, rows=rows, tasks=tasks, warm=2, batches=3)
    return Run(run.function, run.arguments, {"rows": min(rows, 1_000), "warm": 1, "batches": 1}, timeout_secs=run.timeout_secs)


def _growth_work(rows: int, tasks: int, *, only_by_name: bool = False) -> Work:
    name, summary = f"growth-{rows}-{tasks}", f"a batch of {rows:,} lines with {tasks} tasks of each component"
    figures = _figures("ms", batch_ms="time of a batch") + _figures("ns", row_ns="per line")
    return Work("cluster", name, summary, _growth(rows, tasks), figures, needs=("spark",), once=True, only_by_name=only_by_name)


def _cluster_workers(workers: int) -> Run:
    prepare = "bench.kafka.topics:fill_with_lines"
    sizes: dict[str, Any] = {"records": 400_000, "warm": 2, "batches": 6}
    quick = {"records": 8_000, "warm": 1, "batches": 2}
    return _run("bench.cluster.workers:measure", quick, prepare=prepare, timeout_secs=300, workers=workers, **sizes)


CLUSTER: Final = (
    Work(
        "cluster",
        "words-on-spark",
        "words of files into SQLite on local[2], batches of 100,000 lines",
        _cluster_lines("spark", "split"),
        unit="line",
        peers=(
            Peer(
                "pyspark-by-hand",
                "mapInArrow with the same Python function, foreachBatch of a file stream, one SQLite transaction for each batch",
                _run(
                    "bench.cluster.words:measure_by_hand",
                    {"lines": 2_000, "warm": 1, "batches": 2},
                    timeout_secs=300,
                    lines=100_000,
                    warm=2,
                    batches=4,
                ),
            ),
            Peer("one-core", "the same topology in one process", _cluster_lines("one-core", "split")),
        ),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "computing-on-spark",
        "a bolt that computes 20 µs for each line, on local[2], batches of 100,000 lines",
        _cluster_lines("spark", "burn"),
        unit="line",
        peers=(Peer("one-core-computing", "the same topology in one process", _cluster_lines("one-core", "burn")),),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "tiny-batches",
        "batches of 10 lines, one at a time and four at once, session warm",
        _batch_cost("measure_tiny", warm=10, batches=40),
        _figures("ms", one_ms="one at a time", four_ms="four at once") + _figures("×", four_at_once="batches/s, four at once to one"),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "two-workers",
        "a bolt that computes 20 µs for each record of Kafka, on a standalone cluster of two workers of one core",
        _cluster_workers(2),
        unit="record",
        peers=(Peer("one-worker", "the same on one worker of one core", _cluster_workers(1)),),
        needs=("spark", "kafka"),
    ),
    Work(
        "cluster",
        "planned-partitions",
        "batches of 64 records, planned for 2 and for 64 partitions of Kafka",
        _batch_cost("measure_planned", warm=5, batches=20),
        _figures("ms", two_ms="2 partitions", many_ms="64 partitions", added_ms="64 partitions, more than 2"),
        needs=("spark", "kafka"),
    ),
    *(_growth_work(rows, 2, only_by_name=rows > 1_000_000) for rows in (10_000, 100_000, 1_000_000, 10_000_000)),
    *(_growth_work(100_000, tasks) for tasks in (1, 8, 64)),
)


# Flow control

POINT: Final = PER_SECOND + _percentiles("emit to ack", "p50", "p99") + _figures("trees", window="window at the end")
UNLIKE: Final = (
    *PER_SECOND,
    *_figures("×", of_ideal="rate, to the tasks' capacity"),
    *_percentiles("made to done", "p50", "p99"),
    *_figures("s", recovery_secs="from the end of a stall to the full rate"),
)
WINDOWS: Final = {"hash": (100, 12, 1000), "shuffle": (12, 1, 24, 48, 96, 384), "load-aware": (24, 12, 48, 96, 384)}
"""Windows to try for each grouping. A small run tries the first one."""
PACED_PER_SECOND: Final = 1200
"""Records per second of a source that is slower than the tasks (0.55 of their capacity)."""


def _unlike(name: str, summary: str, *, virtual: bool, rate: int = 0) -> Work:
    """Return flow control compared with groupings. Each grouping has its windows, or no windows if the source has a rate."""

    def run(way: str, pending: int = 0) -> Run:
        arguments: dict[str, Any] = {"way": way, "pending": pending, "rate": rate, "virtual": virtual}
        return _run("bench.flow.unlike_tasks:measure", {"virtual": True}, timeout_secs=300, **arguments)

    ways = {way: {str(window): run(way, window) for window in windows} for way, windows in WINDOWS.items()}
    if rate:
        ways = {way: {"": run(way)} for way in ("round-robin", "load-aware", "shuffle")}
    sweep = Sweep(ways, PER_SECOND + _figures("ms", p99_ms="p99"), rate_loss=0.05)
    return Work("flow", name, summary, run("flow"), UNLIKE, own_name="flow", sweep=sweep, once=virtual)


def _point(work: str, pending: int | str, burst: int = 256) -> Run:
    quick = {"warm_secs": 0.5, "measured_secs": 0.5}
    return _run("bench.flow.point:measure", quick, work=work, pending=pending, burst=burst, warm_secs=3.0, measured_secs=3.0)


def _auto_pending(work: str, summary: str) -> Work:
    fixed = {str(pending): _point(work, pending) for pending in (*(2**power for power in range(4, 15)), "none")}
    compared = PER_SECOND + _figures("ms", p50_ms="emit to ack p50", p99_ms="emit to ack p99")
    sweep = Sweep({"fixed": fixed}, compared, again=True)
    return Work("flow", f"auto-pending-{work}", summary, _point(work, "auto"), POINT, own_name="auto", sweep=sweep)


FLOW: Final = (
    _unlike(
        "unlike-tasks",
        "12 tasks, a heavy tail, one 10 times slower, one that stalls: flow control beside groupings with their best windows",
        virtual=False,
    ),
    _unlike("unlike-tasks-virtual", "the same in virtual time", virtual=True),
    _unlike(
        "unlike-tasks-paced",
        f"the same in virtual time from a source of {PACED_PER_SECOND:,} records a second, without windows",
        virtual=True,
        rate=PACED_PER_SECOND,
    ),
    Work(
        "flow",
        "controller-cost",
        "the controller alone, 12 tasks",
        _run("bench.flow.controller_cost:measure", {"packs": 20_000}, packs=300_000),
        _figures("ns", decide_ns="a tuple's task, emit and ack")
        + tuple(Figure(f"all_of_{records}_ns", f"everything, tuples of {records}, per record", "ns") for records in (1, 20, 200)),
    ),
    Work(
        "flow",
        "bad-records",
        "12 tasks, some of the records are bad: each is tried twice, and given up",
        _run("bench.flow.bad_records:measure", {"measured_secs": 0.2}, measured_secs=4.0),
        (
            *(Figure(f"waiting_{percent}_of_ideal", f"3 ms a record, {percent} % bad: rate, to the ideal", "×") for percent in (1, 10, 30)),
            *(Figure(f"at_once_{percent}_per_second", f"nothing to do, {percent} % bad", "/s") for percent in (1, 10, 30)),
            Figure("at_once_per_second", "nothing to do, none bad", "/s"),
        ),
    ),
    _auto_pending("word-count", "the word count of macro, max_spout_pending auto beside 16 to 16,384 and none"),
    _auto_pending("async-pool", "12 tasks that wait 5 ms for each tuple, max_spout_pending auto beside the same"),
    Work(
        "flow",
        "burst-word-count",
        "the word count of macro with bursts of 16 to 2,048 tuples, 1,000 open trees",
        _point("word-count", 1000),
        POINT,
        own_name="burst 256",
        sweep=Sweep({"burst": {str(burst): _point("word-count", 1000, burst) for burst in (16, 32, 64, 128, 512, 1024, 2048)}}, ()),
    ),
)


# Requests that get results

CLIENTS: Final = 100
LATENCIES: Final = _figures("ms", p50_ms=f"{CLIENTS} clients, p50", p99_ms=f"{CLIENTS} clients, p99")


def _clients(function: str, package: str = "", **arguments: Any) -> Run:
    """Return a run of clients that each wait for the result of their request."""
    quick = {"warm_secs": 0.2, "measured_secs": 0.5}
    return _run(function, quick, package=package, **arguments, clients=CLIENTS, warm_secs=1.0, measured_secs=4.0)


def _calls(store: str) -> Work:
    kept = "without state" if store == "none" else f"with state in {store}"
    figures = _figures("ms", one_p50_ms="1 client, p50", one_p99_ms="1 client, p99") + PER_SECOND + LATENCIES
    run = _clients("bench.service.calls:measure", store=store)
    return Work("service", f"calls-{store}", f"calls of an inlet, {kept}", run, figures, "call", needs=_needs(store))


def _http(store: str, *peers: Peer) -> Work:
    summary = f"requests over HTTP to a topology, state: {store}"
    run = _clients("bench.service.apps:measure", store=store)
    return Work("service", f"http-{store}", summary, run, PER_SECOND + LATENCIES, "request", peers, _needs(store))


SERVICE: Final = (
    _calls("none"),
    _calls("sqlite"),
    _calls("redis"),
    _http(
        "none",
        Peer("starlette-direct", "Starlette calls the same function directly", _clients("bench.service.apps:measure_direct")),
        Peer("fastapi-direct", "FastAPI calls it directly", _clients("bench.peers.fastapi_app:measure", "service/fastapi")),
    ),
    _http("sqlite"),
    Work(
        "service",
        "calls-ask",
        "calls of an inlet beside requests that are records of Kafka",
        _clients("bench.service.calls:measure", store="none"),
        _figures("ms", one_p50_ms="1 client, p50") + PER_SECOND + LATENCIES,
        "call",
        (Peer("faust-ask", "an agent's ask, on uvloop", _clients("bench.peers.faust_app:ask", "kafka/faust-streaming")),),
        ("kafka",),
    ),
    Work(
        "service",
        "watching",
        "the word count of macro while ten pages watch it, beside the same run without a server",
        _run("bench.service.watching:measure", {"pairs": 1, "measured_secs": 0.5}, pages=10, pairs=9, measured_secs=4.0),
        _figures("%", cost_percent="throughput lost")
        + _figures("/s", plain_per_second="words without a server", watched_per_second="words with ten pages"),
    ),
)

WORKS: Final = (*MICRO, *MACRO, *STATE, *KAFKA, *TRANSACTIONS, *SPARK, *CLUSTER, *FLOW, *SERVICE, *COMPARE)
