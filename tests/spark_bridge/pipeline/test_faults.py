"""Causes found in the long error texts of Spark. The texts are shortened ones of Spark 4.1."""

import pytest

from spark_bridge.pipeline.faults import fault_in_text, fault_of_error
from spark_bridge.sinks import SinkError, SinkUnavailable
from spark_bridge.sinks.jdbc import Database

STACK = """
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)

Driver stacktrace:
=== Streaming Query ===
Identifier: [id = 2adba9f5, runId = 62f5bacc]
Logical Plan:
~WriteToMicroBatchDataSource NoopTable, [checkpointLocation=/tmp/c], Append
"""
IN_A_UDF = f"""Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most recent failure: Lost task 0.0 (TID 7) \
(localhost executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/home/ann/flow.py", line 60, in inverse
    return 10 // number
           ~~~^^~~~~~~~
ZeroDivisionError: integer division or modulo by zero
{STACK}"""
IN_THE_DRIVER = f"""An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/home/ann/flow.py", line 12, in store
    batch.select(inverse("number")).collect()
  File "/x/lib/python3.11/site-packages/pyspark/errors/exceptions/captured.py", line 269, in deco
    raise converted from None
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/home/ann/flow.py", line 60, in inverse
    return 10 // number
ZeroDivisionError: integer division or modulo by zero

{STACK}"""
OF_THE_SOURCE = f"""[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform planPartitions: \
Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 80, in partitions_func
  File "/x/spark_bridge/source/stream_reader.py", line 73, in partitions
    raise self._no_manifest(txid)
spark_bridge.handover.errors.KIND: /data/handover: txid 3 is deleted
Fix: Begin at txid 4 or later.
 SQLSTATE: 38000
{STACK}"""


@pytest.mark.parametrize("text", [IN_A_UDF, IN_THE_DRIVER])
def test_an_error_of_user_code_names_the_line(text: str) -> None:
    fault = fault_in_text(text)
    assert fault.kind == "code"
    assert fault.text == (
        "ZeroDivisionError: integer division or modulo by zero\n    /home/ann/flow.py, line 60, in inverse: return 10 // number"
    )


@pytest.mark.guarantee("SP-3")
def test_an_error_of_the_source_keeps_its_fix() -> None:
    fault = fault_in_text(OF_THE_SOURCE.replace("KIND", "TransactionDeleted"))
    assert (fault.kind, fault.text, fault.hint) == ("final", "/data/handover: txid 3 is deleted", "Begin at txid 4 or later.")
    assert fault_in_text(OF_THE_SOURCE.replace("KIND", "StorageUnavailable")).kind == "passing"
    of_a_sink = OF_THE_SOURCE.replace("handover.errors.KIND: /data/handover", "sinks.batch.SinkError: out/\nhas it, and")
    assert fault_in_text(of_a_sink).text == "out/\nhas it, and: txid 3 is deleted"
    assert (fault_in_text(of_a_sink).kind, fault_in_text(of_a_sink.replace("has it", "Connection refused")).kind) == ("code", "passing")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Job aborted: ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "passing"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "passing"),
        (IN_A_UDF.replace("ZeroDivisionError: integer", "ConnectionResetError: [Errno 104]"), "passing"),
        (IN_A_UDF.replace("ZeroDivisionError: integer", "psycopg2.OperationalError: server is gone"), "passing"),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.", "final"),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", "code"),
    ],
)
def test_temporary_permanent_and_code_errors_are_told_apart(text: str, kind: str) -> None:
    assert fault_in_text(text).kind == kind


def test_the_end_of_a_source_process_is_temporary_and_named() -> None:
    fault = fault_in_text(f"null{STACK}")
    assert (fault.kind, fault.text) == (
        "passing",
        "a Python process of Spark ended during a call, and Spark gave no reason",
    )


def test_stacks_and_plans_are_left_out() -> None:
    assert (
        fault_in_text(f"[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== DataFrame ==\n{STACK}").text
        == "[DIVIDE_BY_ZERO] Division by zero."
    )
    assert fault_in_text("").text == "Spark gave no reason"


def test_an_exception_of_this_process_is_described_alike() -> None:
    try:
        {}["wrod"]  # type: ignore[index]
    except KeyError as error:
        fault = fault_of_error(error)
    assert fault.kind == "code"
    assert fault.text.startswith("KeyError: 'wrod'\n    ")
    assert "test_faults.py, line" in fault.text


@pytest.mark.parametrize(
    "said",
    [
        "Connection to 127.0.0.1:5432 refused. Check that the hostname and port are correct.",
        "FATAL: terminating connection due to administrator command",
        "An I/O error occurred while sending to the backend.",
        "FATAL: the database system is starting up",
        "This connection has been closed.",
    ],
)
def test_an_unreachable_database_is_a_temporary_error(said: str) -> None:
    with pytest.raises(SinkUnavailable) as raised, Database("jdbc:postgresql://127.0.0.1:5432/x", {}).translate_errors():
        raise RuntimeError(f"An error occurred while calling o1.save.\n: org.postgresql.util.PSQLException: {said}\n\tat org.x")
    assert fault_of_error(raised.value).kind == "passing"


def test_a_refused_statement_is_a_code_error() -> None:
    with pytest.raises(SinkError) as raised, Database("jdbc:postgresql://127.0.0.1:5432/x", {}).translate_errors():
        raise RuntimeError('org.postgresql.util.PSQLException: ERROR: column "a" is of type integer but expression is of type text')
    assert fault_of_error(raised.value).kind == "code"
