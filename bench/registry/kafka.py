"""A source and a sink beside other clients and engines, on one broker."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_figures, new_percentiles, new_run
from bench.work import Peer, Run, Work


def _reads(function: str, records: int = 1_000_000, package: str = "", **arguments: Any) -> Run:
    """Return a run that reads the full topic of `records` records."""
    prepare, secs = "bench.kafka.topics:fill_with_records", 600
    return new_run(function, {"records": records // 20}, package=package, prepare=prepare, timeout_secs=secs, records=records, **arguments)


def _reads_lines(function: str, words: int) -> Run:
    """Return a run that reads a full topic of lines of so many words."""
    records, prepare = (500_000, "fill_with_lines") if words > 1 else (1_000_000, "fill_with_words")
    quick = {"records": records // 20}
    return new_run(function, quick, prepare=f"bench.kafka.topics:{prepare}", timeout_secs=600, records=records, words=words)


def _word_count(name: str, summary: str, words: int) -> Work:
    """Return a word count of a topic, beside clients that only read it."""
    asyncio_client, client = "bench.peers.aiokafka_clients:read_on_asyncio", "bench.peers.aiokafka_clients:read"
    peers = (
        Peer("aiokafka", "a getmany loop on asyncio, which only reads", _reads_lines(asyncio_client, words)),
        Peer("aiokafka-uvloop", "the same on uvloop", _reads_lines(client, words)),
    )
    return Work("kafka", name, summary, _reads_lines("bench.kafka.words:measure", words), KAFKA_FIGURES, "line", peers, ("kafka",))


def _appends(function: str, **arguments: Any) -> Run:
    """Return a run that fills its own topic."""
    return new_run(function, {"records": 15_000}, records=300_000, **arguments)


def _kafka_latency(name: str, summary: str, reader: str) -> Work:
    run = new_run("bench.kafka.latency:measure", {"measured_secs": 3.0}, reader=reader, rate=10_000, measured_secs=10.0)
    return Work("kafka", name, summary, run, new_percentiles("append to ack", "p50", "p99", "p999"), needs=("kafka",))


KAFKA_FIGURES: Final = PER_SECOND + new_figures(
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
    Peer(
        "librdkafka-fields",
        "the same, and takes the value, key, offset, time and headers of each record, as a source on this client would",
        _reads("bench.peers.librdkafka_consumer:read", package="kafka/confluent-kafka", takes_fields=True),
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
    _word_count("kafka-word-count", "records of one word, counted in bursts", 1),
    _word_count("kafka-line-count", "records of 10 words, split and counted in bursts", 10),
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
        new_figures(
            "MB",
            clean_mb="most memory, nothing held back",
            bounded_mb="one poison record, bound of 100,000",
            whole_mb="one poison record, 1,000,000 held back",
        )
        + new_figures("bytes", bytes_per_held="memory of a record that is held back")
        + new_figures("records", beyond="records taken beyond the bound", behind="records of other partitions that did not flow"),
        needs=("kafka",),
    ),
)
