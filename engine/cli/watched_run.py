"""Serves the page of a run that the command line runs (`run --http`)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.cli.console.output import print_to_stderr
from engine.errors import ConfigError, UsageError, with_hint
from engine.installation import install_command

if TYPE_CHECKING:
    from engine.runtime.run import Run


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How a run in a terminal is served over HTTP."""

    address: str
    """`127.0.0.1:8080`, `8080`; port 0 is a free port."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers reach the server, besides loopback and the address."""
    callable_inlets: tuple[str, ...] = ()
    """Inlets that `POST /api/call/INLET` may call."""


@asynccontextmanager
async def watched(run: "Run", options: HttpOptions | None) -> AsyncIterator[None]:
    """Serve a run, and print its URL. Raise ConfigError if this is not possible. Without options, do nothing."""
    if options is None:
        yield
        return
    check_installed()
    from engine.web import serve
    from engine.web.access_token import new_token, token_of_environment

    given = token_of_environment()
    token = given or new_token()
    hosts, inlets = options.allowed_hosts, options.callable_inlets
    async with AsyncExitStack() as stack:
        server = serve(run, options.address, token=token, allowed_hosts=hosts, callable_inlets=inlets, logger="root")
        try:
            serving = await stack.enter_async_context(server)
        except UsageError as error:
            raise ConfigError([with_hint(error.message, error.hint)], headline="HTTP") from error
        print_to_stderr(f"Watch: {serving.url}")
        print_to_stderr("Steer: with the token of ENGINE_HTTP_TOKEN" if given else f"Steer: {serving.url}#token={token}")
        yield


def check_installed() -> None:
    """Raise ConfigError if the extra `web` is not installed."""
    try:
        import engine.web  # noqa: F401
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        fault = f"--http needs {error.name}, which is not installed. Run: {install_command('web')}"
        raise ConfigError([fault], headline="HTTP") from error
