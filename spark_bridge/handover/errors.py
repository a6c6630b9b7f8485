"""What is wrong with a hand-over folder. Executors have no engine, so this is no EngineError; the engine's side turns it into one."""


class HandoverError(Exception):
    """Says what, where, and (its `hint`) what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nFix: {self.hint}" if self.hint else self.message
