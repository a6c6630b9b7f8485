"""The token that every change of a run needs (WEB-1)."""

import os
import re
import secrets
from typing import Final

from engine.errors import ConfigError

TOKEN_VARIABLE: Final = "ENGINE_HTTP_TOKEN"
_TOKEN: Final = re.compile(r"[!-~]+")


def check_token(token: str, place: str) -> str:
    """Return a token that can be sent in a header. Raise ConfigError with the place if it is empty or has other characters."""
    if not token:
        raise _wrong_token(f"{place} is empty. Set it to a secret text, or remove it.")
    if not _TOKEN.fullmatch(token):
        raise _wrong_token(f"{place} has a space or a character that is not ASCII. Use letters, digits and signs.")
    return token


def token_of_environment() -> str | None:
    """Return the token of `ENGINE_HTTP_TOKEN`, None if the variable is not set. Raise ConfigError for a token that cannot be used."""
    token = os.environ.get(TOKEN_VARIABLE)
    return None if token is None else check_token(token, TOKEN_VARIABLE)


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(16)


def _wrong_token(fault: str) -> ConfigError:
    return ConfigError([fault], headline="HTTP token")
