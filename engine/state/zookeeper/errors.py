"""What ZooKeeper and its client raise, in words: what may pass is StateUnavailable, what needs a person StateError."""

from typing import Final

from kazoo import exceptions

from engine.errors import StateError, StateUnavailable

EXPECTED: Final = (exceptions.NoNodeError, exceptions.NodeExistsError, exceptions.NotEmptyError, exceptions.BadVersionError)
"""What a node was found to be otherwise than was thought: for who asked to decide."""

_UNREACHED: Final = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.UnknownSessionError,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
)
_BUSY: Final = (exceptions.ThrottledOpError, exceptions.NotReadOnlyCallError, exceptions.SystemZookeeperError)
_FORBIDDEN: Final = (exceptions.NoAuthError, exceptions.AuthFailedError, exceptions.InvalidACLError)


def unreached(where: str, timeout_secs: float) -> StateUnavailable:
    """Return what to raise where nothing answers in time."""
    return StateUnavailable(f"{where} did not answer within {timeout_secs:g} s", hint="Does it run, and are host and port right?")


def meaning(error: Exception, where: str) -> StateError:
    """Return what to raise instead of an error; `where` names the server."""
    said = _said(error)
    if isinstance(error, _UNREACHED):
        return StateUnavailable(f"{where}: the connection was lost: {said}", hint="Does it run, and can it be reached?")
    if isinstance(error, exceptions.QuotaExceededError):
        return StateUnavailable(f"{where}: its quota for these nodes is used up", hint="setquota raises it.")
    if isinstance(error, _BUSY):
        return StateUnavailable(f"{where} cannot write now: {said}", hint="It has too much to do, or no majority of its servers is there.")
    if isinstance(error, _FORBIDDEN):
        return StateError(
            f"{where}: its user may not do this: {said}",
            hint="Name the user who made the nodes: zookeeper://user:password@host:port/path; getAcl tells who may.",
        )
    return StateError(f"{where}: {said}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ").removesuffix(": ()")
