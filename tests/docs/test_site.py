"""The documentation site: it builds without a warning, and shows each page as GitHub does."""

import re
import subprocess
import sys

import pytest

from tests.docs.pages import PAGES, ROOT

#: A line of dashes below the header of a table.
TABLE = re.compile(r"^\|[-:| ]+\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def main_part(site, page) -> str:
    """The HTML of the page's text."""
    name = "" if page.name == "README.md" else f"{page.stem.lower()}/"
    text = (site / f"{name}index.html").read_text(encoding="utf-8")
    return text.partition('role="main"')[2].partition("</footer>")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page(site, page):
    """Each heading, table and code block of the source is one on the site."""
    source, html = page.read_text(encoding="utf-8"), main_part(site, page)
    prose = re.sub(r"^```.*?^```$", "", source, flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^#+ ", prose, re.MULTILINE)) == len(re.findall(r"<h\d id=", html))
    assert len(TABLE.findall(prose)) == html.count("<table")
    assert html.count("<pre") >= len(re.findall(r"^```\w*$", source, re.MULTILINE)) // 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_star_in_a_symbol_is_no_emphasis(site, page):
    """Emphasis begins and ends with a word: kappa*, B* stay as they are."""
    html = re.sub(r"<pre.*?</pre>", "", main_part(site, page), flags=re.DOTALL)
    emphasised = re.findall(r"<em>(.*?)</em>", html, re.DOTALL)
    assert [text for text in emphasised if not re.match(r"[\w<(]", text)] == []


def test_links_from_the_site(site):
    """No link leads to a file of the repository that the site does not have."""
    for path in site.rglob("*.html"):
        if path.name == "404.html":
            continue
        for link in re.findall(r'href="([^"#]+)', path.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site):
    """The pages work without a network."""
    loaded = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//', re.IGNORECASE)
    assert [path.name for path in site.rglob("*.html") if loaded.search(path.read_text("utf-8"))] == []
