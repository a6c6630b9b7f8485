"""Exact text of each fault that `build()` reports (GRP-5)."""

import pytest

from engine.api import BasicBolt, Bolt, Fields, Spout
from engine.config import Config
from engine.errors import TopologyError, UsageError
from engine.topology import TopologyBuilder

pytestmark = pytest.mark.guarantee("GRP-5")


class Words(Spout):
    output_fields = Fields("word")

    def next_tuple(self) -> None:
        pass


class Split(Bolt):
    output_fields = {"default": Fields("word", "length"), "late": Fields("word"), "chosen": Fields("word", direct=True)}

    def execute(self, tup) -> None:
        pass


class Sink(Bolt):
    def execute(self, tup) -> None:
        pass


class AsyncSink(Bolt):
    async def execute(self, tup) -> None:
        pass


class AsyncBasic(BasicBolt):
    async def execute(self, tup) -> None:
        pass


class NeedsPath(Spout):
    output_fields = Fields("line")

    def __init__(self, path) -> None:
        self.path = path

    def next_tuple(self) -> None:
        pass


class Unfinished(Bolt):
    pass


class NoChoice:
    pass


def words_and(config: Config | None = None) -> TopologyBuilder:
    builder = TopologyBuilder("test", config)
    builder.set_spout("words", Words)
    return builder


def faults_of(builder: TopologyBuilder) -> list[str]:
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return list(raised.value.faults)


def bolt_with(subscribe) -> TopologyBuilder:
    builder = words_and()
    builder.set_bolt("split", Split).shuffle_grouping("words")
    subscribe(builder.set_bolt("count", Sink))
    return builder


@pytest.mark.parametrize(
    ("subscribe", "fault"),
    [
        (
            lambda bolt: bolt.shuffle_grouping("wrods"),
            "bolt 'count': there is no component 'wrods' (there are: words, split, count). Did you mean 'words'?",
        ),
        (
            lambda bolt: bolt.shuffle_grouping("x"),
            "bolt 'count': there is no component 'x' (there are: words, split, count). Fix shuffle_grouping() or declare 'x'.",
        ),
        (
            lambda bolt: bolt.all_grouping("split", "lat"),
            "bolt 'count': 'split' has no stream 'lat' (it has: default, late, chosen). Fix all_grouping() or Split.output_fields.",
        ),
        (
            lambda bolt: bolt.shuffle_grouping("count"),
            "bolt 'count': 'count' has no stream 'default' (it declares none). Fix shuffle_grouping() or Sink.output_fields.",
        ),
        (
            lambda bolt: bolt.fields_grouping("words", "wrod"),
            "bolt 'count': stream 'default' of 'words' has no field 'wrod' (it has: word). Fix fields_grouping() or Words.output_fields.",
        ),
        (
            lambda bolt: bolt.partial_key_grouping("split", "word", "length", stream="late"),
            "bolt 'count': stream 'late' of 'split' has no field 'length' (it has: word). "
            "Fix partial_key_grouping() or Split.output_fields.",
        ),
        (
            lambda bolt: bolt.fields_grouping("words"),
            "bolt 'count': fields_grouping('words') names no field. Name at least one.",
        ),
        (
            lambda bolt: bolt.fields_grouping("words", 0),
            "bolt 'count': fields_grouping() got 0 (int) as the name of a field. Pass a str.",
        ),
        (
            lambda bolt: bolt.shuffle_grouping(["words"]),
            "bolt 'count': shuffle_grouping() got ['words'] (list) as the name of a component. Pass a str.",
        ),
        (
            lambda bolt: bolt.shuffle_grouping("words", None),
            "bolt 'count': shuffle_grouping() got None (NoneType) as the name of a stream. Pass a str.",
        ),
        (
            lambda bolt: bolt.direct_grouping("words"),
            "bolt 'count': direct_grouping() on stream 'default' of 'words', which is not direct. "
            "Fix the grouping, or declare Fields(..., direct=True).",
        ),
        (
            lambda bolt: bolt.shuffle_grouping("split", "chosen"),
            "bolt 'count': shuffle_grouping() on stream 'chosen' of 'split', which is direct. "
            "Use direct_grouping(), or declare it without direct=True.",
        ),
        (
            lambda bolt: bolt.custom_grouping("words", NoChoice),
            "bolt 'count': custom_grouping() was given NoChoice, which has no choose_tasks(). Define it.",
        ),
        (
            lambda bolt: bolt.custom_grouping("words", 3),
            "bolt 'count': custom_grouping() was given 3, which has no choose_tasks() and makes nothing. "
            "Pass a CustomGrouping, its class, or a callable that returns one.",
        ),
        (
            lambda bolt: bolt.shuffle_grouping("words").fields_grouping("words", "word"),
            "bolt 'count': subscribes to stream 'default' of 'words' twice (shuffle, fields(word)), so it would get each tuple twice. "
            "Keep one grouping.",
        ),
    ],
)
def test_an_unknown_input_is_a_fault(subscribe, fault) -> None:
    assert faults_of(bolt_with(subscribe)) == [fault]


def test_a_spout_with_inputs_is_a_fault() -> None:
    builder = words_and()
    builder.set_spout("more", Words).shuffle_grouping("words")
    assert faults_of(builder) == ["spout 'more': a spout takes no input, but it subscribes to 'words'. Remove that, or write a bolt."]


def test_a_topology_without_a_spout_is_a_fault() -> None:
    assert faults_of(TopologyBuilder("empty")) == ["no spout: nothing would ever be emitted. Add one with set_spout()."]


def test_a_duplicate_id_is_a_fault() -> None:
    builder = words_and()
    builder.set_bolt("words", Sink)
    assert faults_of(builder) == ["bolt 'words': an earlier spout has the same id. Rename one of them."]


@pytest.mark.parametrize("reserved", ["__acker", "$checkpoint"])
def test_a_reserved_id_is_a_fault(reserved) -> None:
    builder = words_and()
    builder.set_bolt(reserved, Sink).shuffle_grouping("words")
    assert faults_of(builder) == [f"bolt {reserved!r}: ids that begin with '__' or '$' are the engine's own. Rename it."]


@pytest.mark.parametrize("wrong", ["", None, 3, ["a"]])
def test_an_id_that_is_not_a_name_is_a_fault(wrong) -> None:
    builder = words_and()
    builder.set_bolt(wrong, Sink).shuffle_grouping("words")
    assert faults_of(builder) == [f"bolt {wrong!r}: an id must be a non-empty str. Fix set_bolt()."]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, None])
def test_a_wrong_parallelism_is_a_fault(wrong) -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("words", Words, parallelism=wrong)
    assert faults_of(builder) == [f"spout 'words': parallelism must be an integer of at least 1, not {wrong!r}. Fix set_spout()."]


def test_names_that_cannot_be_encoded_are_faults() -> None:
    class Torn(Sink):
        output_fields = {"torn\ud800": Fields("word")}

    builder = TopologyBuilder("torn\ud800")
    builder.set_spout("words\ud800", Words)
    builder.set_bolt("sink", Torn).shuffle_grouping("words\ud800")
    assert faults_of(builder) == [
        "the name of a topology must be text that UTF-8 can encode, not 'torn\\ud800'. Fix TopologyBuilder(...).",
        "spout 'words\\ud800': an id must be text that can be written as UTF-8. Fix set_spout().",
        "bolt 'sink': stream name 'torn\\ud800' cannot be encoded as UTF-8. Write {\"late\": Fields(\"word\")}.",
    ]
    with pytest.raises(UsageError, match=r"field name .* cannot be encoded as UTF-8"):
        Fields("word\ud800")


def test_too_many_tasks_are_a_fault() -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("words", Words, parallelism=2**40)
    assert faults_of(builder) == ["spout 'words': parallelism must be at most 65_536, not 1099511627776. Fix set_spout()."]


@pytest.mark.parametrize(
    ("factory", "settings", "fault"),
    [
        (AsyncSink, {"concurency": 4}, "'concurency' is not a setting of a bolt. Did you mean 'concurrency'?"),
        (AsyncSink, {"max_spout_pending": 4}, "'max_spout_pending' is not a setting of a bolt. Only a spout has this setting. Remove it."),
        (AsyncSink, {"concurrency": 0}, "concurrency must be an integer of at least 1, not 0. Fix set_bolt(..., concurrency=...)."),
        (
            AsyncSink,
            {"on_error": "explode"},
            "on_error must be 'fail', 'restart', 'stop' or 'divert', not 'explode'. Fix set_bolt(..., on_error=...).",
        ),
        (
            AsyncSink,
            {"tick_tuple_freq_secs": -1},
            "tick_tuple_freq_secs must be a number of seconds of at least 0.001, not -1. Fix set_bolt(..., tick_tuple_freq_secs=...).",
        ),
        (
            AsyncSink,
            {"tick_tuple_freq_secs": 1e-9},
            "tick_tuple_freq_secs must be a number of seconds of at least 0.001, not 1e-09. Fix set_bolt(..., tick_tuple_freq_secs=...).",
        ),
        (
            Sink,
            {"concurrency": 4},
            "concurrency=4 needs an `async def execute`, but Sink.execute is a plain def. "
            "Make it async, raise the parallelism, or set threads of a BasicBolt.",
        ),
        (Sink, {"threads": 4}, "threads=4 needs a BasicBolt, but Sink is not one. Derive it from BasicBolt."),
        (
            AsyncBasic,
            {"threads": 4},
            "threads=4 needs a plain `def execute`, but AsyncBasic.execute is an async def. Set concurrency instead.",
        ),
    ],
)
def test_a_wrong_setting_is_a_fault(factory, settings, fault) -> None:
    builder = words_and()
    builder.set_bolt("count", factory, **settings).shuffle_grouping("words")
    assert faults_of(builder) == [f"bolt 'count': {fault}"]


def test_a_wrong_class_attribute_is_named() -> None:
    class Ticking(Sink):
        tick_tuple_freq_secs = "often"

    builder = words_and()
    builder.set_bolt("count", Ticking).shuffle_grouping("words")
    assert faults_of(builder) == [
        "bolt 'count': tick_tuple_freq_secs must be a number of seconds of at least 0.001, not 'often'. Fix Ticking.tick_tuple_freq_secs."
    ]


async def make_async():
    return Words()


def count_words(tup):
    yield (tup["word"],)


@pytest.mark.parametrize(
    ("factory", "fault"),
    [
        (NeedsPath, "NeedsPath() needs arguments: path. Pass lambda: NeedsPath(path), with values."),
        (Words(), "its factory is an instance of Words, but each task needs its own. Pass Words itself, or lambda: Words(...)."),
        (3, "its factory is 3 (int), which is not callable. Pass a class, or lambda: Name(...)."),
        (Sink, "Sink is a bolt. Use set_bolt()."),
        (dict, "class dict is not a spout. Derive it from Spout."),
        (lambda: None, "its factory returned None, not a spout. Return a new Spout at each call."),
        (lambda: 3, "its factory returned 3 (int), not a spout. Return a new Spout at each call."),
        (lambda: Words, "its factory returned the class Words, not an instance. Pass Words itself."),
        (lambda: Sink(), "its factory returned Sink, a bolt. Use set_bolt()."),
        (lambda: count_words(None), 'its factory returned a generator. Write @spout("field", ...) above its function.'),
        (make_async, "its factory is async. Make it a plain function, and await in open() or prepare()."),
    ],
)
def test_a_wrong_factory_is_a_fault(factory, fault) -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("source", factory)
    assert faults_of(builder) == [f"spout 'source': {fault}"]


def test_a_plain_function_as_a_bolt_is_a_fault() -> None:
    builder = words_and()
    builder.set_bolt("count", count_words).shuffle_grouping("words")
    assert faults_of(builder) == [
        "bolt 'count': its factory count_words() needs arguments: tup. Pass lambda: count_words(...). "
        'If count_words() is the function of the bolt, write @bolt("field", ...) above it.'
    ]


def test_a_class_without_execute_is_a_fault() -> None:
    builder = words_and()
    builder.set_bolt("count", Unfinished).shuffle_grouping("words")
    assert faults_of(builder) == ["bolt 'count': Unfinished has no execute(). Define it."]


def test_the_fault_of_a_raising_factory_names_the_line() -> None:
    def broken():
        raise OSError("no such book")

    builder = TopologyBuilder("test")
    builder.set_spout("lines", broken)
    line = broken.__code__.co_firstlineno + 1
    assert faults_of(builder) == [
        f"spout 'lines': its factory raised OSError: no such book ({__file__}:{line}). "
        "Fix the factory. Open files and sockets in open() or prepare() instead."
    ]


def test_wrong_output_fields_are_faults() -> None:
    class Wrong(Words):
        output_fields = 3

    builder = TopologyBuilder("test")
    builder.set_spout("words", Wrong)
    assert faults_of(builder) == [
        "spout 'words': output_fields of stream 'default' must be Fields, not 3 (int). "
        'Write output_fields = Fields("word"), or {"default": Fields("word"), "late": Fields("word")}.'
    ]


def test_the_fault_of_a_raising_property_names_the_line() -> None:
    class Wrong(Words):
        @property
        def output_fields(self):
            raise ValueError("no such field")

        @property
        def max_spout_pending(self):
            raise AttributeError("no such limit")

    builder = TopologyBuilder("test")
    builder.set_spout("words", Wrong)
    line = Wrong.output_fields.fget.__code__.co_firstlineno + 2
    assert faults_of(builder) == [
        f"spout 'words': its output_fields raised ValueError: no such field ({__file__}:{line}). "
        "Make the property return a value.",
        f"spout 'words': its max_spout_pending raised AttributeError: no such limit ({__file__}:{line + 4}). "
        "Make the property return a value.",
    ]


@pytest.mark.parametrize(
    ("builder", "fault"),
    [
        (TopologyBuilder(""), "the name of a topology must be a non-empty str, not ''. Fix TopologyBuilder(...)."),
        (
            TopologyBuilder("test", {"burst": 1}),  # type: ignore[arg-type]
            "config must be a Config, not {'burst': 1}. Fix TopologyBuilder(..., config=Config(...)).",
        ),
    ],
)
def test_a_wrong_name_or_config_is_a_fault(builder, fault) -> None:
    builder.set_spout("words", Words)
    assert faults_of(builder) == [fault]


def test_all_faults_are_reported_at_once_in_the_order_of_declaration() -> None:
    builder = TopologyBuilder("many")
    builder.set_spout("words", Words, parallelism=0, concurrency=3)
    builder.set_spout("lines", NeedsPath)
    builder.set_bolt("__count", Sink, parallelism="2").fields_grouping("words", "wrod").shuffle_grouping("lines").all_grouping("nobody")
    builder.set_bolt("words", Sink)
    with pytest.raises(TopologyError) as raised:
        builder.build()
    assert list(raised.value.faults) == [
        "spout 'words': parallelism must be an integer of at least 1, not 0. Fix set_spout().",
        "spout 'words': 'concurrency' is not a setting of a spout. Only a bolt has this setting. Remove it.",
        "spout 'lines': NeedsPath() needs arguments: path. Pass lambda: NeedsPath(path), with values.",
        "bolt '__count': ids that begin with '__' or '$' are the engine's own. Rename it.",
        "bolt '__count': parallelism must be an integer of at least 1, not '2'. Fix set_bolt().",
        "bolt 'words': an earlier spout has the same id. Rename one of them.",
        "bolt '__count': stream 'default' of 'words' has no field 'wrod' (it has: word). Fix fields_grouping() or Words.output_fields.",
        "bolt '__count': there is no component 'nobody' (there are: words, lines, __count). Fix all_grouping() or declare 'nobody'.",
    ]
    assert str(raised.value).startswith("topology 'many', 8 faults:\n  - spout 'words': parallelism")
    assert raised.value.exit_status == 2
