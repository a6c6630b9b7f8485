"""The ASGI application of one run. A program can mount it under any path."""

import logging
from collections.abc import Collection, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from engine.runtime.run import Run
from engine.web.access import Access
from engine.web.answers import WrongRequest, error_answer
from engine.web.guard import Guard
from engine.web.pacing import Pacing
from engine.web.read_budget import ReadBudget
from engine.web.reading import Reading
from engine.web.sampler import Sampler
from engine.web.site import Site, checked_inlets, level_name
from engine.web.steering import Steering


def app(
    run: Run, *, token: str | None = None, allowed_hosts: Iterable[str] = (), callable_inlets: Iterable[str] = (), logger: str = "engine"
) -> Starlette:
    """Return the page of a run and its HTTP interface as an ASGI application, to be mounted: `Mount("/engine", engine.web.app(run))`.

    token: secret that every change needs. None: the run can be read, and not changed.
    allowed_hosts: names by which browsers reach the server, besides loopback and IP addresses.
    callable_inlets: inlets that `POST /api/call/INLET` may call.
    logger: logger whose level `POST /api/log-level` changes.

    The run may be waiting, starting, running or ended. All requests must come on the loop of the run. Raises UsageError for an unknown
    inlet, ConfigError for a wrong token.

    >>> import engine
    >>> builder = engine.TopologyBuilder("example")
    >>> _ = builder.set_spout("in", lambda: engine.Inlet("name"))
    >>> application = engine.web.app(engine.run(builder.build()), token="a secret text".replace(" ", "-"))
    """
    return make_application(make_site(run, Access(token=token, allowed_hosts=allowed_hosts), callable_inlets, logger))


def make_site(run: Run, access: Access, callable_inlets: Iterable[str], logger_name: str) -> Site:
    """Return the shared parts of an application."""
    logger = logging.getLogger(logger_name)
    budget = ReadBudget()
    sampler = Sampler(run, lambda: level_name(logger), budget)
    return Site(run, access, budget, sampler, checked_inlets(run.topology, callable_inlets), logger)


def make_application(site: Site) -> Starlette:
    """Return the application of a site."""
    application = Starlette(
        routes=[*Reading(site).routes(), *Steering(site).routes()],
        middleware=[Middleware(Pacing, access=site.access, budget=site.budget), Middleware(Guard, access=site.access)],
        exception_handlers={HTTPException: _answer_wrong_route, WrongRequest: _answer_wrong_request},
    )
    application.router.redirect_slashes = False
    return application


async def _answer_wrong_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, WrongRequest)
    return error_answer(error.status, error.error, error.hint, error.headers)


async def _answer_wrong_route(request: Request, error: Exception) -> Response:
    """Answer to an unknown path, or to a method that a path does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return error_answer(405, "this path has another method", f"Use {_listed(allowed.split(', '))}.", error.headers)
    return error_answer(error.status_code, "there is nothing at this path", "docs/WEB.md lists the paths.", error.headers)


def _listed(methods: Collection[str]) -> str:
    return " or ".join(sorted(method for method in methods if method != "HEAD")) or "GET"
