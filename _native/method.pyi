from collections.abc import Callable
from typing import Any, final

@final
class Method:
    def __init__(self, function: Callable[..., Any]) -> None: ...

def method_or_none(function: Callable[..., Any] | None) -> Method | None: ...
