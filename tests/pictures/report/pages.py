"""Reading a report as a browser would: its elements, and what is embedded in them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LOADERS = ("link", "iframe", "img", "object", "embed")


class Parsed(HTMLParser):
    """Every start tag with its attributes, headings, and the text of each script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self._script = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self._open == [], "elements that are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember it."""
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "!doctype"):
            self._open.append(tag)
        if tag == "script":
            self._script = dict(attrs).get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        """Elements end in order."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text, by what it stands in."""
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        elif inside != "style":
            self.text += data
        if inside == "h2":
            self.headings.append(data)

    def data(self, name: str) -> Any:
        """The JSON in the script element called `name`."""
        return json.loads(self.scripts[name])

    def charts(self) -> list[dict[str, Any]]:
        """Every chart that a holder names, in order."""
        holders = [attributes.get("data-chart") for _, attributes in self.tags]
        return [self.data(name) for name in holders if name]

    def outward(self) -> list[str]:
        """Attributes that would load something from elsewhere."""
        return [
            f"{tag} {name}={value}"
            for tag, attributes in self.tags
            for name, value in attributes.items()
            if name in ("src", "href", "action", "srcset", "data") or tag in LOADERS
        ]
