"""Spark's part: committed batches of requests -> traffic by minute, pages by hour, sessions of visitors, each a table of its own.

    LOG_ETL=FOLDER python -m spark_bridge run examples/log_etl/pipeline.py --folder FOLDER/handover --checkpoints FOLDER/checkpoints

The tables come into FOLDER/tables. All windows are of event time, and a row is written when its window is closed: when the watermark says
that nothing can come for it any more.
"""

import os
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_bridge import sinks

WATERMARK: Final = "10 minutes"
"""How long is waited for what comes late."""
SESSION_GAP: Final = "30 minutes"
"""Who does nothing for so long, begins a new session with the next request."""


def requests(stream: DataFrame) -> DataFrame:
    """Return each request once, and no heartbeats.

    Those are dropped behind the duplicates: Spark would move a filter before the watermark, and that has to see them. They are what closes
    the windows of a quiet night, and of the end of a log, where nobody comes any more who would move the time on.
    """
    once = stream.withWatermark("time", WATERMARK).dropDuplicatesWithinWatermark(["request_id"])
    return once.where("agent != 'heartbeat'")


def people(stream: DataFrame) -> DataFrame:
    """Return what people asked for."""
    return requests(stream).where("agent != 'bot'")


def traffic(stream: DataFrame) -> DataFrame:
    """Requests and errors of each minute."""
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
    """How often people saw each page, in each hour."""
    seen = people(stream).where("section not in ('static', 'api') and status < 400")
    by_hour = seen.groupBy(f.window("time", "1 hour"), "section", "page").agg(f.count("*").alias("views"))
    return by_hour.select(f.col("window.start").alias("hour"), "section", "page", "views")


def sessions(stream: DataFrame) -> DataFrame:
    """Visits of people, with the plans that their users have."""
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
    """What `run_pipeline` runs: a query for each table."""
    return {name: table(name).writer(query(stream), name) for name, query in QUERIES.items()}


def table(name: str) -> sinks.Sink:
    """Return where a query writes: files of Parquet, or a table of Delta Lake."""
    place = str(folder() / "tables" / name)
    return sinks.Delta(place) if os.environ.get("LOG_ETL_SINK") == "delta" else sinks.Parquet(place)


def folder() -> Path:
    return Path(os.environ.get("LOG_ETL", "log-etl"))
