"""Shows a run in a browser, and steers it over HTTP. Needs the extra `web`: starlette and uvicorn.

`app` returns an application for a service, `serve` is a server of its own. Begin to read with `application`. docs/WEB.md is the guide.
"""

from engine.installation import install_command

try:
    import starlette as _starlette
    import uvicorn as _uvicorn
except ImportError as error:
    raise ImportError(
        f"engine.web needs {error.name}, which is not installed. Run: {install_command('web')}",
        name=error.name,
    ) from error

from engine.web.application import app
from engine.web.server import Serving, serve

__all__ = ["Serving", "app", "serve"]

del _starlette, _uvicorn
