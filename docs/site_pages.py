"""Pages of the site that are made when it is built: the home page and the algorithms'.

A hook of mkdocs. The home page is README.md; the page of algorithms holds the header of every
algorithm's file: its paper, symbols, numbered departures and limits.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from simfl.assembly import registry

ROOT = Path(__file__).parents[1]


def home_page() -> str:
    """README.md, with its links as they are from within docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", text)


def algorithms_page() -> str:
    """What each algorithm's file says of its paper, verbatim."""
    parts = [
        "---\nhide: [toc]\n---\n"  # the headers are wide
        "# Algorithms and their departures from their papers\n\nThe headers of the algorithms'"
        " files: paper, symbols, which method is which line of it, what differs from it and why.\n"
    ]
    for name in registry.names("algorithms"):
        one = registry.resolve("algorithms", name, ROOT)
        header = inspect.getdoc(inspect.getmodule(one)) or ""
        parts.append(f"## {name}\n\n```text\n{header.strip()}\n```\n")
    return "\n".join(parts)


def papers() -> list[dict[str, str]]:
    """The pages of papers, each under its title."""
    pages = sorted((ROOT / "docs" / "papers").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for page in pages]
    return [{title: f"papers/{page.name}"} for title, page in zip(titles, pages, strict=True)]


def on_config(config: Any) -> Any:
    """Fill in the section of papers (called by mkdocs)."""
    for entry in config.nav:
        if "Papers" in entry:
            entry["Papers"] = papers()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the made pages (called by mkdocs)."""
    from mkdocs.structure.files import File

    for name, text in (("index.md", home_page()), ("algorithms.md", algorithms_page())):
        files.append(File.generated(config, name, content=text))
    return files
