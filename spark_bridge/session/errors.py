"""What goes wrong with Spark, as the engine's process is told."""

from engine.errors import EngineError, FatalError


class SparkError(EngineError):
    """A function that was called in Spark's process raised, or its job failed there.

    `condition` is Spark's name of the error, such as DIVIDE_BY_ZERO, where there is one; `place` is the line of the user's file, as
    `etl.py:12 in clean`, where it is known.
    """

    def __init__(self, message: str, *, condition: str | None = None, place: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.condition = condition
        self.place = place


class SparkDied(EngineError):
    """Spark's JVM, its process or its server has ended while it was needed; the next call starts another one."""


class SparkUnavailable(EngineError):
    """Spark cannot be started just now: its master or server is away, or a port is taken. The next call tries again."""


class SparkMissing(FatalError):
    """Spark cannot be started here at all: pyspark, Java or a package is missing, or the configuration is refused."""

    exit_status = 2
