"""Hooks of the site of `make docs`: the README is its first page, and links to source files become plain text."""

import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the README as `index.md`, with links that start at `docs/`."""
    with open("README.md", encoding="utf-8") as readme:
        text = readme.read()
    files.append(File.generated(config, "index.md", content=_LINK.sub(_from_docs, text)))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links that leave `docs/` by their text: the site holds no source files."""
    folder = posixpath.dirname(page.file.src_uri)

    def text_of(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if picture or re.match(r"[a-z]+:|#", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        return text if path.startswith("..") else link[0]

    return _LINK.sub(text_of, markdown)


def _from_docs(link: re.Match[str]) -> str:
    picture, text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link[0]
    return f"{picture}[{text}]({posixpath.relpath(target, 'docs')})"
