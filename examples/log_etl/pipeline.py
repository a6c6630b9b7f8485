"""Spark's part: three tables from the committed batches. They hold traffic by minute, pages by hour, and sessions of visitors.

    LOG_ETL=FOLDER python -m spark_bridge run examples/log_etl/pipeline.py --folder FOLDER/handover --checkpoints FOLDER/checkpoints

The tables are in FOLDER/tables. All windows are of event time. A row is written when the watermark closes its window.
"""

import os
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_bridge import sinks

WATERMARK: Final = "10 minutes"
"""How long Spark waits for late requests."""
SESSION_GAP: Final = "30 minutes"
"""A visitor who makes no request for this time begins a new session with the next request."""


def requests(stream: DataFrame) -> DataFrame:
    """Return each request once, without heartbeats.

    Heartbeats are dropped after the duplicates. Spark would move an earlier filter in front of the watermark. But the watermark needs the
    heartbeats, because they close the windows of a quiet night, and of the end of a log.
    """
    once = stream.withWatermark("time", WATERMARK).dropDuplicatesWithinWatermark(["request_id"])
    return once.where("agent != 'heartbeat'")


def people(stream: DataFrame) -> DataFrame:
    """Return the requests of people."""
    return requests(stream).where("agent != 'bot'")


def traffic(stream: DataFrame) -> DataFrame:
    """Return requests and errors of each minute."""
    by_minute = (
        requests(stream)
        .groupBy(f.window("time", "1 minute"))
        .agg(
            f.count("*").alias("requests"),
            f.count_if(f.expr("agent = 'bot'")).alias("by_bots"),
            f.count_if(f.expr("status between 400 and 499")).alias("client_errors"),
            f.count_if(f.expr("status >= 500")).alias("server_errors"),
            f.sum("bytes").alias("bytes"),
        )
    )
    return by_minute.select(f.col("window.start").alias("minute"), "requests", "by_bots", "client_errors", "server_errors", "bytes")


def pages(stream: DataFrame) -> DataFrame:
    """Return the views of each page by people, in each hour."""
    seen = people(stream).where("section not in ('static', 'api') and status < 400")
    by_hour = seen.groupBy(f.window("time", "1 hour"), "section", "page").agg(f.count("*").alias("views"))
    return by_hour.select(f.col("window.start").alias("hour"), "section", "page", "views")


def sessions(stream: DataFrame) -> DataFrame:
    """Return the visits of people, with the plans of their users."""
    visit = f.session_window("time", SESSION_GAP)
    visits = people(stream).groupBy(visit, "visitor", "country").agg(f.count("*").alias("requests"), f.sum("bytes").alias("bytes"))
    users = stream.sparkSession.read.csv(str(folder() / "logs" / "users.csv"), header=True, schema="user string, plan string, since int")
    return visits.join(f.broadcast(users), visits["visitor"] == users["user"], "left").select(
        "visitor",
        "country",
        f.coalesce("plan", f.lit("guest")).alias("plan"),
        f.col("session_window.start").alias("began"),
        (f.col("session_window.end") - f.expr(f"interval {SESSION_GAP}")).alias("ended"),
        "requests",
        "bytes",
    )


QUERIES: Final = {"traffic": traffic, "pages": pages, "sessions": sessions}


def pipeline(stream: DataFrame) -> dict[str, Any]:
    """Return a query for each table, for `run_pipeline`."""
    return {name: table(name).writer(query(stream), name) for name, query in QUERIES.items()}


def table(name: str) -> sinks.Sink:
    """Return the sink of a query: files of Parquet, or a table of Delta Lake."""
    place = str(folder() / "tables" / name)
    return sinks.Delta(place) if os.environ.get("LOG_ETL_SINK") == "delta" else sinks.Parquet(place)


def folder() -> Path:
    return Path(os.environ.get("LOG_ETL", "log-etl"))
