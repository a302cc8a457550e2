"""What mkdocs needs to build one site from docs/ and the pages at the root of the repository.

The pages link to each other as files, so that they can be read on GitHub; the site moves the root's pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
#: Pages of the root and their places on the site.
_MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
}
_SOURCES = {place: name for name, place in _MOVED.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the anchors of headings as GitHub does."""
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": _slug}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for name, place in _MOVED.items():
        text = (_ROOT / name).read_text(encoding="utf-8")
        content = text if name.endswith(".md") else f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the signature that mkdocs calls
    """Point links to where their targets are on the site; a link to any other file becomes plain text."""
    place = page.file.src_uri
    folder = Path(_SOURCES.get(place, f"docs/{place}")).parent.as_posix()

    def relink(match: re.Match[str]) -> str:
        text, target, fragment = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = normpath(f"{folder}/{target}")
        on_site = _MOVED.get(path, path.removeprefix("docs/"))
        if path not in _MOVED and not path.startswith("docs/"):
            return text if (_ROOT / path).exists() else match[0]
        return f"[{text}]({on_site}{fragment})"

    return _LINK.sub(relink, markdown)


def _slug(heading: str, separator: str) -> str:  # noqa: ARG001 - GitHub's separator is always a dash
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
