"""What is wrong with a hand-over folder. Executors have no engine, so this is no EngineError; the engine's side turns it into one."""


class HandoverError(Exception):
    """Says what, where, and (its `hint`) what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}\nFix: {self.hint}" if self.hint else self.message


class StorageUnavailable(HandoverError):
    """The storage does not answer, has no room or no right for us: what was asked of it may be asked again."""


class NameTaken(HandoverError):
    """A file that nobody else should write is there already."""


class TornFile(HandoverError):
    """A file of ours is not whole, or was changed: its checksum does not fit."""


class ForeignFile(HandoverError):
    """A file that should be ours is of something else."""


class NewerFormat(HandoverError):
    """A file was written by a newer version of this package."""


class TransactionDeleted(HandoverError):
    """The files of a txid are gone, or were never there: every consumer of that time had committed it, or the folder began behind it."""


class TransactionMissing(HandoverError):
    """A txid has no manifest: it is not committed yet, or it is lost."""


def _again(kind: type[HandoverError], message: str, hint: str | None) -> HandoverError:
    """Make an error that came from another process."""
    return kind(message, hint=hint)
