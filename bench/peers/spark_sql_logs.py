"""Parses lines of examples/log_etl in Spark SQL by the rules of its engine part, for a pipeline without the engine."""

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "log_etl"
sys.path.append(str(EXAMPLE))

from access_log import COUNTRIES, ELSEWHERE, LINE, SCHEMA, SECTIONS  # noqa: E402


def parse_lines(text: DataFrame) -> DataFrame:
    """Return the columns of the hand-over from lines in a column `value`.

    One match tells whether the text is a valid line. Then each part is split once. To extract ten groups would match ten times, and take
    twice as long.
    """
    quoted = f.split("value", '"')
    client, asked, outcome = (f.split(quoted[number], " ") for number in (0, 1, 2))
    first = f.split_part(f.col("page"), f.lit("/"), f.lit(2))
    known = f.lit(sorted(SECTIONS))
    lines = text.where(f.col("value").rlike(f"^{LINE.pattern}$")).select(
        f.substring(quoted[6], 2, 16).alias("request_id"),
        f.to_timestamp(f.concat(f.substring(client[3], 2, 20), client[4]), "dd/MMM/yyyy:HH:mm:ssZ']'").alias("time"),
        f.when(client[2] == "-", client[0]).otherwise(client[2]).alias("visitor"),
        f.coalesce(_countries()[f.substring_index(client[0], ".", 2)], f.lit(ELSEWHERE)).alias("country"),
        _kind(f.lower(quoted[5])).alias("agent"),
        f.substring_index(asked[1], "?", 1).alias("page"),
        outcome[1].cast("int").alias("status"),
        f.coalesce(outcome[2].try_cast("bigint"), f.lit(0)).alias("bytes"),
    )
    section = f.when(first == "", "home").when(f.array_contains(known, first), first).otherwise("other")
    return lines.withColumn("section", section).select(*SCHEMA)


def _countries() -> Column:
    return f.create_map(*(f.lit(text) for item in COUNTRIES.items() for text in item))


def _kind(agent: Column) -> Column:
    bot = agent.contains("bot") | agent.contains("crawler")
    heartbeat = agent.contains("internal dummy connection")
    return f.when(heartbeat, "heartbeat").when(bot, "bot").when(agent.contains("mobile"), "phone").otherwise("computer")
