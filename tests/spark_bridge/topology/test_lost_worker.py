"""Errors of jobs whose Python workers or executors died: who, where, how, and the remedy (CL-3)."""

from spark_bridge.topology.lost_worker import WorkerLost, worker_lost

COMPONENTS = (("numbers",), ("split", "clean"), ())
STACK = "\tat java.base/java.lang.Thread.run(Thread.java:840)\nCaused by: java.io.EOFException\n\tat java.base/java.io.Data(Data.java:3)"


def _failed(stage: int, how: str, tries: int = 1, place: str = "localhost executor driver") -> str:
    task = f"Task 3 in stage {stage}.0 failed {tries} times, most recent failure: Lost task 3.0 in stage {stage}.0 (TID 8) ({place}): {how}"
    return f"An error occurred while calling z:PythonRDD.collect.\n: org.apache.spark.SparkException: Job aborted: {task}\n{STACK}"


CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
SILENT = f"{CRASHED}. Consider setting 'spark.python.worker.faulthandler.enabled' configuration to 'true'."


def _lost(text: str) -> WorkerLost | None:
    return worker_lost(text, COMPONENTS, lambda stage: [7, 4, 5] if stage in (4, 5, 7) else [])


def _text(text: str) -> tuple[str, str]:
    lost = _lost(text)
    assert lost is not None
    return lost.call_failure.message, str(lost.call_failure.hint)


def test_a_silent_death_is_named_with_components_place_and_remedy() -> None:
    message, hint = _text(_failed(5, SILENT, 4, "10.0.0.7 executor 2"))
    assert message == (
        "a Python worker died at 10.0.0.7 (executor 2) while it computed partition 3 of 'split', 'clean', in all 4 tries. "
        "It was killed by SIGKILL, or ended itself by os._exit()"
    )
    assert "smaller" in hint
    assert "spark.executor.memoryOverhead" in hint


def test_the_last_words_of_a_crash_show_the_call_of_the_crashed_thread() -> None:
    other = 'Thread 0x1 (most recent call first):\n  File "a.py", line 1 in wait\n\n'
    told = f"Fatal Python error: Segmentation fault\n\n{other}Current thread 0x2 (most recent call first):\n"
    frames = "".join(f'  File "bolt.py", line {line} in execute\n' for line in range(20))
    message, hint = _text(_failed(4, f"{CRASHED}: {told}{frames}"))
    lines = message.splitlines()
    assert lines[0] == "a Python worker died at localhost while it computed partition 3 of 'numbers':"
    assert lines[1].strip() == "Fatal Python error: Segmentation fault"
    assert lines[2].strip() == 'File "bolt.py", line 0 in execute'
    assert len(lines) == 8
    assert "a.py" not in message
    assert "java" not in message
    assert "module in C" in hint


def test_a_lost_executor_is_named_with_sparks_reason() -> None:
    how = "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited with code 137"
    message, hint = _text(_failed(4, how, 4, "10.0.0.7 executor 0"))
    assert message.startswith("an executor died at 10.0.0.7 (executor 0) while it computed partition 3 of 'numbers', in all 4 tries")
    assert message.endswith("Command exited with code 137")
    assert "executor_memory=" in hint


def test_lost_blocks_of_dead_executors_are_named_with_the_components_that_read_them() -> None:
    failed = "ResultStage 5 (collect at job.py:66) has failed the maximum allowable number of times: 4. Most recent failure reason:\n"
    reason = "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 2 partition 0\n"
    message, hint = _text(f"Job aborted due to stage failure: {failed}{reason}{STACK}")
    assert message == "the input of 'split', 'clean' was lost 4 times, with the executors that had it"
    assert "executor_memory=" in hint


def test_stages_that_run_no_component_keep_sparks_number() -> None:
    assert "partition 3 of stage 9" in _text(_failed(9, SILENT))[0]
    assert "partition 3 of stage 7" in _text(_failed(7, SILENT))[0]


def test_any_other_failure_is_left_alone() -> None:
    assert _lost(_failed(4, "java.io.FileNotFoundException: shuffle_1_2.data")) is None
    assert _lost("Python worker exited unexpectedly (crashed), without a task") is None
