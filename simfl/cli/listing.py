"""`simfl list`: what a scenario can name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from simfl.common.suggestion import nearest
from simfl.console.terminal import Terminal

if TYPE_CHECKING:
    from simfl.system.catalogue import Kind

DECISIONS = ("selection", "association", "scheduling", "allocation", "staleness", "estimator")
PARTS = (
    "algorithms",
    "protocols",
    "datasets",
    "partitions",
    "models",
    "populations",
    "availability",
    "codecs",
    "sharing",
    "measures",
)
PROFILES: dict[str, Kind] = {
    "devices": "device",
    "servers": "server",
    "links": "link",
    "regions": "region",
}
KINDS = (*PROFILES, *PARTS, "decisions", *DECISIONS, "scenarios", "traces", "events")


class UnknownListing(ValueError):
    """There is no such kind of thing to list."""


def shipped_scenarios() -> dict[str, Path]:
    """Scenarios by name: those inside an installed package, else the checkout's folder."""
    package = Path(str(files("simfl")))
    inside = package / "_data" / "scenarios"
    folder = inside if inside.is_dir() else package.parent / "scenarios"
    return {
        str(path.relative_to(folder).with_suffix("")): path
        for path in sorted(folder.rglob("*.yaml"))
        if path.parent.name != "studies"
    }


def print_listing(kind: str, *, verbose: bool = False, profiles: Sequence[Path] = ()) -> None:
    """Print the names of a kind, with what they are; raises `UnknownListing`.

    `profiles` are folders with device and link files of one's own, listed with the shipped ones.
    """
    if kind not in KINDS:
        hint = nearest(kind, KINDS) or ";"
        raise UnknownListing(f"unknown kind {kind!r}{hint} accepted: {', '.join(KINDS)}")
    console = Terminal()
    if kind in PROFILES:
        console.print(_profiles(kind, profiles, verbose=verbose))
    elif kind == "events":
        for table in _events():
            console.print(table)
    elif kind == "scenarios":
        console.print(_scenarios())
    elif kind == "traces":
        console.print(_traces())
    else:
        for one in DECISIONS if kind == "decisions" else (kind,):
            console.print(_parts(one))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _parts(kind: str) -> Table:
    from simfl.assembly import registry

    table = _table(kind, "name", "what it is")
    for name in registry.names(kind):
        part = registry.resolve(kind, name, Path())
        table.add_row(name, (inspect.getdoc(part) or "").split("\n\n")[0].replace("\n", " "))
    return table


def _profiles(kind: str, folders: Sequence[Path], *, verbose: bool) -> Table:
    from simfl.system.catalogue import Catalogue

    catalogue, one = Catalogue(folders), PROFILES[kind]
    columns = ("field", "value", "source") if verbose else ("what it is", "figures")
    table = _table(kind, "name", *columns)
    for name in catalogue.list_profiles(one):
        profile = catalogue.profile(one, name)
        figures = {path: _at(profile.values, path) for path in profile.figures()}
        if not verbose:
            unverified = f", {len(profile.unverified)} unverified" if profile.unverified else ""
            table.add_row(name, profile.about, f"{len(figures)}{unverified}")
            continue
        for index, (path, value) in enumerate(figures.items()):
            source = "unverified" if path in profile.unverified else profile.sources.get(path, "")
            table.add_row(name if index == 0 else "", path, _short(value), source)
    return table


def _at(values: Any, path: str) -> Any:
    for step in path.split("."):
        values = values[step]
    return values


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, int | float) else str(value)
    return text if len(text) < 60 else text[:57] + "..."


def _scenarios() -> Table:
    table = _table("scenarios", "name", "file")
    for name, path in shipped_scenarios().items():
        table.add_row(name, str(path))
    return table


def _traces() -> Table:
    from simfl.system.traces.convert import FORMATS

    table = _table("formats of simfl convert-trace", "name", "what it is")
    for name, (what, _) in FORMATS.items():
        table.add_row(name, what)
    return table


def _events() -> list[Table]:
    from simfl.eventlog.kinds import COLUMNS, SCHEMA
    from simfl.eventlog.kinds import KINDS as EVENT_KINDS

    kinds = _table("event kinds", "kind", "what it is", "value", "keys of detail")
    for kind, (what, value, detail) in EVENT_KINDS.items():
        kinds.add_row(kind, what, value, detail)
    columns = _table("columns of events.parquet", "column", "unit or meaning", "of which kinds")
    for name in SCHEMA.names:
        columns.add_row(name, COLUMNS[name].unit, ", ".join(COLUMNS[name].kinds or ("all",)))
    return [kinds, columns]
