"""A file fits a sitting, a function fits a screen: limits of length, and who is let off and why."""

from collections.abc import Iterator

from tests.project.sources import Function, sources

MOST_LINES = 400
MOST_FUNCTION_LINES = 50
MOST_PARAMETERS = 6

# "path" or "path:function": why it is right as it is.
LONG_FILES: dict[str, str] = {
    "engine/testing/state_provider_suite.py": "one class: the tests that a state provider must pass, which a provider's author reads whole",
    "_native/bolt.pyx": "one class: take up, execute, settle; C code in two modules would call across their border for each tuple",
    "_native/kafka.pyx": "offsets of a partition and the emits of its records: all that is done per record",
    "_native/task.pyx": "what each emit passes through: targets, outlets, streams and their base; C code in two modules would call across",
    "_native/spout.pyx": "one class: emit, poll, hand out verdicts; in two modules each emit would cross their border",
    "_native/flow.pyx": "windows, their choice, packs: all that is done per pack; in two modules each pack would cross their border",
    "tests/checkpoint/world.py": "one topology in which any loss is visible: its sources, its bolts, their plan",
    "tests/simulation/components.py": "one table of components, each with the mistakes of user code",
    "engine/runtime/run.py": "one class: the face of a run, which its host reads as a whole",
    "engine/runtime/executor.py": "one class: the life of a task, from its first instance to its last",
    "engine/runtime/bolt_executor.py": "one class: turns, orders, errors and rollback of a bolt's task",
    "engine/runtime/spout_executor.py": "one class: polls, verdicts, switches and ends of a spout's task",
    "engine/streams/streams.py": "one noun: the streams of a flow, whose methods return each other",
    "engine/state/layered.py": "one class: the layers of a state and what moves them on",
}
LONG_FUNCTIONS: dict[str, str] = {}
MANY_PARAMETERS: dict[str, str] = {
    "_native/records.pyx:__init__": "a constructor with the fields of a record of Kafka, for pickles and old formats only",
    "_native/task.pyx:__cinit__": "a constructor, called once per outlet at wiring, all but two by keyword",
    "_native/task.pyx:__init__": "a constructor, called once per task at wiring, all but one by keyword",
}

FOLDERS = ("_native", "engine", "spark_bridge", "bench", "examples", "scripts")


def long_files() -> dict[str, int]:
    lengths = {source.name: source.text.count("\n") for source in sources(*FOLDERS, "tests")}
    return {name: length for name, length in lengths.items() if length > MOST_LINES}


def functions() -> Iterator[tuple[str, Function]]:
    return ((f"{source.name}:{function.name}", function) for source in sources(*FOLDERS) for function in source.functions)


def long_functions() -> dict[str, int]:
    return {name: function.length for name, function in functions() if function.length > MOST_FUNCTION_LINES}


def many_parameters() -> dict[str, int]:
    return {name: function.parameters for name, function in functions() if function.parameters > MOST_PARAMETERS}


def test_no_file_is_too_long() -> None:
    assert not {name: lines for name, lines in long_files().items() if name not in LONG_FILES}


def test_no_function_is_too_long() -> None:
    assert not {name: lines for name, lines in long_functions().items() if name not in LONG_FUNCTIONS}


def test_no_function_takes_too_many_parameters() -> None:
    assert not {name: count for name, count in many_parameters().items() if name not in MANY_PARAMETERS}


def test_every_exemption_is_needed() -> None:
    assert not LONG_FILES.keys() - long_files().keys()
    assert not LONG_FUNCTIONS.keys() - long_functions().keys()
    assert not MANY_PARAMETERS.keys() - many_parameters().keys()
