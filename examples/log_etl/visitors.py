"""Visitors and pages of the shop, for traffic.py."""

import random
from dataclasses import dataclass
from typing import Final, NamedTuple


class Visitor(NamedTuple):
    """A visitor of the shop."""

    address: str
    user: str
    agent: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the shop."""

    path: str
    bytes: int
    method: str = "GET"
    query: str = ""

    def request(self, draw: random.Random) -> tuple[str, str, int]:
        """Return method, target, and the size of the answer."""
        target = f"{self.path}?{self.query}{draw.randrange(50)}" if self.query else self.path
        return self.method, target, int(self.bytes * draw.uniform(0.8, 1.2))


_SLUGS: Final = (
    "kettle",
    "lamp",
    "chair",
    "desk",
    "mug",
    "rug",
    "vase",
    "clock",
    "shelf",
    "stool",
    "bowl",
    "tray",
    "pillow",
    "frame",
    "basket",
    "mirror",
)

PAGES: Final = (
    Page("/", 18_200),
    *(Page(f"/category/{slug}s", 24_500, query="page=" if number % 2 else "") for number, slug in enumerate(_SLUGS[:8])),
    Page("/search", 15_800, query="q="),
    Page("/cart", 7_900),
    *(Page(f"/product/{slug}-{number}", 21_300) for number in range(1, 7) for slug in _SLUGS),
    Page("/checkout", 9_400),
    Page("/account/orders", 11_000),
    Page("/api/cart", 420, "POST"),
    *(Page(f"/product/{slug}-{number}", 21_300, query="ref=mail") for number in range(7, 20) for slug in _SLUGS),
    *(Page(f"/blog/{number}-how-we-make-a-{slug}", 33_000) for number, slug in enumerate(_SLUGS, 1)),
    Page("/about", 6_100),
    Page("/imprint", 3_300),
)
"""Pages by falling popularity, which follows Zipf's law."""

STATIC: Final = tuple(
    f"/static/{name}" for name in ("shop.css", "shop.js", "logo.svg", "fonts/text.woff2", *(f"photo/{slug}.webp" for slug in _SLUGS))
)

BROWSERS: Final = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/133.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:135.0) Gecko/20100101 Firefox/135.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Mobile Safari/604.1",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/133.0.0.0 Mobile Safari/537.36",
)

BOTS: Final = (
    "Mozilla/5.0 (compatible; Searchbot/2.1; +http://search.example/bot.html)",
    "Mozilla/5.0 (compatible; PriceCrawler/1.4; +http://prices.example/)",
    "archive-bot/0.9",
)

PLANS: Final = ("free", "free", "free", "plus", "plus", "business")
