"""Errors of a hand-over folder. Executors run without the engine, so no class here derives from `EngineError`."""


class HandoverError(Exception):
    """Base of all errors of a hand-over folder. `message` says what happened and where. `hint` says what to do.

    In the engine, `call_in_thread` of `spark_bridge.writer` translates it to an error of the engine.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (type(self), self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}\nFix: {self.hint}" if self.hint else self.message


class StorageUnavailable(HandoverError):
    """The storage failed, for example without an answer, space or permission. The same call may succeed later."""


class NameTaken(HandoverError):
    """A file with a new, unique name already exists."""


class TornFile(HandoverError):
    """A file of the folder is incomplete or was changed, so its checksum or its digest does not match."""


class ForeignFile(HandoverError):
    """A file of the folder was written by another program, or is of another kind."""


class NewerFormat(HandoverError):
    """A file was written by a newer version of this package."""


class TransactionDeleted(HandoverError):
    """The files of a txid were deleted after every consumer committed it, or the folder began after that txid."""


class TransactionMissing(HandoverError):
    """A txid has no manifest, because it is not committed yet or the manifest is lost."""


def _unpickle(kind: type[HandoverError], message: str, hint: str | None) -> HandoverError:
    """Rebuild an error of another process. Needed because `hint` is a keyword, and pickle cannot pass keywords."""
    return kind(message, hint=hint)
