"""`simfl list` and `simfl show`: parts and profiles for scenarios, and their descriptions."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from simfl.common.suggestion import nearest
from simfl.console.terminal import Terminal
from simfl.scenario.shipped import shipped_scenarios

if TYPE_CHECKING:
    from simfl.system.catalogue import Catalogue, Kind

PROFILES: dict[str, Kind] = {
    "devices": "device",
    "servers": "server",
    "links": "link",
    "regions": "region",
}
DECISIONS = {
    "selection": "which clients take part in a round",
    "association": "which edge server a client belongs to",
    "scheduling": "which edge server is dispatched next",
    "allocation": "the clock frequency of a client",
    "staleness": "the weight of a stale update",
    "estimator": "the latency that servers expect",
}
PARTS = {
    "algorithms": "training and aggregation",
    "protocols": "when clients and servers wait for each other",
    "datasets": "the training and test data",
    "partitions": "which client holds which examples",
    "models": "the neural network",
    "populations": "where clients and their machines come from",
    "availability": "when clients are available",
    "codecs": "compression of messages",
    "sharing": "how simultaneous transfers share a medium",
    "measures": "figures computed for a run",
}
KINDS = {
    "devices": "profiles of client devices",
    "servers": "profiles of edge and cloud servers",
    "links": "profiles of networks",
    "regions": "profiles of electricity (CO2, price)",
    "processors": "computing models: keys of `processor:` in profiles",
    "link_models": "network models: keys of `link:` in profiles",
    **PARTS,
    "decisions": "all of the six below",
    **DECISIONS,
    "scenarios": "scenarios that come with simfl",
    "traces": "trace formats that `simfl convert-trace` reads",
    "events": "kinds of rows in events.parquet, and their columns",
    "rounds": "columns of rounds.parquet, a row per global version",
    "evaluations": "columns of evaluations.parquet",
    "clients": "columns of clients.parquet, a row per client",
}
"""Kinds that can be listed, with descriptions."""

REGISTERED = {"link_models": "links"}
"""The registry's name of a kind, where the word means profiles here."""


class UnknownListing(ValueError):
    """There is no such kind to list, or nothing with that name to show."""


def print_listing(kind: str, *, verbose: bool = False, profiles: Sequence[Path] = ()) -> None:
    """Print the names of a kind with descriptions; raises `UnknownListing`.

    `profiles` are folders with the user's own device and link files, listed with the shipped ones.
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
    elif kind in ("rounds", "evaluations", "clients"):
        console.print(_columns(kind))
    elif kind == "scenarios":
        console.print(_scenarios())
    elif kind == "traces":
        console.print(_traces())
    else:
        for one in DECISIONS if kind == "decisions" else (kind,):
            console.print(_parts(one))


def print_kinds() -> None:
    """Print the kinds that can be listed."""
    table = _table("simfl list KIND", "kind", "what it is")
    for kind, what in KINDS.items():
        table.add_row(kind, what)
    console = Terminal()
    console.print(table)
    console.print("simfl show NAME has the keys, defaults and source of any of them")


def print_shown(name: str, profiles: Sequence[Path] = ()) -> None:
    """Print everything with this name: parts with their keys, profiles as written in their file.

    An import path shows a user's own class. Raises `UnknownListing`.
    """
    from simfl.assembly import registry
    from simfl.scenario.plugins import PluginError
    from simfl.system.catalogue import Catalogue

    console, catalogue = Terminal(), Catalogue(profiles)
    try:
        parts = registry.found_as(name, Path())
    except PluginError as error:
        raise UnknownListing(f"found {error.found}, accepted: {error.accepted}") from error
    files = [
        catalogue.profile(kind, name).path
        for kind in PROFILES.values()
        if catalogue.holds(kind, name)
    ]
    files += [path for scenario, path in shipped_scenarios().items() if scenario == name]
    if not parts and not files:
        raise UnknownListing(_nothing_called(name, catalogue))
    for kind, part in parts.items():
        _print_part(console, name, kind, part)
    for path in files:
        console.print(f"{path}\n\n{path.read_text(encoding='utf-8').rstrip()}\n", soft_wrap=True)


def _nothing_called(name: str, catalogue: Catalogue) -> str:
    from simfl.assembly import registry

    known = [one for kind in registry.KINDS for one in registry.names(kind)]
    known += [one for kind in PROFILES.values() for one in catalogue.list_profiles(kind)]
    told_of = list(_parts_about(name))
    if told_of:
        return f"nothing is called {name!r}, but see `simfl show {told_of[0]}`" + "".join(
            f", `simfl show {one}`" for one in told_of[1:]
        )
    hint = nearest(name, [*known, *shipped_scenarios()]) or ";"
    return f"nothing is called {name!r}{hint} see `simfl list`"


def _parts_about(name: str) -> Iterator[str]:
    """Shipped parts whose description has a method's name, such as FedAsync or FedAdam."""
    from simfl.assembly import registry

    word = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
    for kind in registry.KINDS:
        for known in registry.names(kind):
            part = registry.shipped(kind, known)
            text = f"{sys.modules[part.__module__].__doc__} {part.__doc__}" if part else ""
            if word.search(text):
                yield known


def _print_part(console: Terminal, name: str, kind: str, part: type) -> None:
    """A part's section in a scenario, its description, its keys and its source."""
    from simfl.assembly import registry
    from simfl.scenario.reference import key_rows
    from simfl.study.kinds import KINDS as FIGURES_OF_MEASURES

    schema = registry.part_schema(part, name)
    keys = {key: node for key, node in schema["properties"].items() if key != "name"}
    console.print(f"{name}: {registry.SECTIONS[kind]}\n\n{schema['description']}\n")
    if keys:
        table = _table("", "key", "accepted", "default", "meaning")
        for row in key_rows(keys, schema["required"]):
            table.add_row(row.key, row.accepted, row.default or "needed", row.meaning)
        console.print(table)
    else:
        console.print("It has no keys.")
    if kind == "measures" and name in FIGURES_OF_MEASURES:
        console.print(
            "Figures in studies:", *(f"{name}.{one}" for one in FIGURES_OF_MEASURES[name])
        )
    about = inspect.getdoc(inspect.getmodule(part)) or ""
    console.print(f"\n{inspect.getsourcefile(part)}\n\n{about}\n", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _parts(kind: str) -> Table:
    from simfl.assembly import registry

    table = _table(kind, "name", "what it is")
    registered = REGISTERED.get(kind, kind)
    for name in registry.names(registered):
        part = registry.resolve(registered, name, Path())
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
        estimates = profile.estimates()
        if not verbose:
            unverified = f", {len(estimates)} unverified" if estimates else ""
            table.add_row(name, profile.about, f"{len(figures)}{unverified}")
            continue
        for index, (path, value) in enumerate(figures.items()):
            source = "unverified" if path in estimates else profile.sources[path]
            interval = profile.uncertainty.intervals.get(path)
            ends = f", {interval.low:g} to {interval.high:g}" if interval is not None else ""
            table.add_row(name if index == 0 else "", path, f"{_short(value)}{ends}", source)
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
    for name, one in FORMATS.items():
        table.add_row(name, one.about)
    return table


def _columns(name: str) -> Table:
    from simfl.runs.columns import CLIENTS, EVALUATIONS, ROUNDS

    meanings = {"rounds": ROUNDS, "evaluations": EVALUATIONS, "clients": CLIENTS}[name]
    table = _table(f"columns of {name}.parquet", "column", "what it holds")
    for column, what in meanings.items():
        table.add_row(column, what)
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
