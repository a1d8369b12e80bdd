"""Writes what docs/ holds of the code: `python docs/make_reference.py`, after a change to a key.

scenario.md and profiles.md are made whole from the schemas of scenarios and profiles, api.md from
the docstrings of what is public (`make_api.py`). In plugins.md, every block below a comment
`<!-- examples/FILE -->` is replaced by that file's text, below `<!-- examples/FILE KEY -->` by one
section of that YAML file.
"""

from __future__ import annotations

import inspect
import json
import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from simfl.assembly import registry
from simfl.scenario.reference import accepted_text, default_text, key_rows
from simfl.scenario.scenario import Scenario
from simfl.scenario.sections import (
    PART_SCHEMA,
    DataSection,
    Decisions,
    Evaluate,
    Log,
    Part,
    Plateau,
    PopulationSection,
    Stop,
)
from simfl.study.kinds import KINDS as FIGURES_OF_MEASURES

FOLDER = Path(__file__).parent
Schema = Mapping[str, Any]

INTRODUCTION = """\
# Keys of a scenario

A scenario is a YAML file. A *part* is named by `name`, beside its own keys, or by its bare name
where its defaults will do: `model: linear` is `model: {name: linear}`. A name with a colon is an
import path, `file.py:Class` (relative to the scenario file) or `package.module:Class`; see
[plugins.md](plugins.md). Units are part of a key's name. Numbers may be written as `7e-29`.
Beside the bounds below, none but 0 is smaller than 1e-60 in size and none larger than 1e30; seconds
are at most 1e10 (317 years), hertz lie between 1e-3 and 1e15, decibels are at most 1e3. Simulated
time ends at 1e11 s.

Any key can be overridden on the command line, by its dotted path: `--set stop.versions=5`.
`simfl validate FILE --resolved` prints a scenario with every default filled in that something
reads.

Whether anything reads a key depends on the others: `synchronous` sends nothing over
`population.backhaul` (unless `server_behind: backhaul`), and asks no `decisions.scheduling`. A key
that the file holds and nothing reads is warned about (`simfl validate FILE` prints its line and
the reason); the run is made as if it were not there, and its own `scenario.yaml` is without it.
Where `--set` or a study names such a key, it is refused. Parts of your own are taken to read
whatever they can, unless they [say what they read](plugins.md#what-a-part-reads).
"""

FOOTER = """\
---

Made by `docs/make_reference.py` from the code, which is where to change it; for editors, `{}`
prints the same as a JSON Schema.
"""

PARTS = {
    "model": ("models", "What is trained."),
    "population": ("populations", "Clients, edge servers, cloud and the links between them."),
    "algorithm": ("algorithms", "What is learned, by whom, and how it is put together."),
    "protocol": ("protocols", "Who waits for whom."),
}


def scenario_reference() -> str:
    """The text of scenario.md."""
    sections: dict[str, type[BaseModel]] = {"stop": Stop, "evaluate": Evaluate, "log": Log}
    lines = [INTRODUCTION, "## Top level", "", *_table(_frame_rows(Scenario)), ""]
    lines += ["## data", "", _text(DataSection), "", *_table(_frame_rows(DataSection)), ""]
    lines += [*_parts("datasets", "data"), *_parts("partitions", "data.partition")]
    for key, (kind, what) in PARTS.items():
        lines += [f"## {key}", "", what, ""]
        if key == "population":
            lines += [*_table(_frame_rows(PopulationSection)), ""]
            lines += _parts("availability", "population.availability")
            lines += _parts("codecs", "population.uplink_codec or downlink_codec")
            lines += _parts("sharing", "population.access_sharing or backhaul_sharing")
        lines += _parts(kind, key)
    lines += ["## decisions", "", _text(Decisions), "", *_table(_frame_rows(Decisions)), ""]
    for kind in Decisions.model_fields:
        lines += _parts(kind, f"decisions.{kind}")
    for key, model in sections.items():
        rows = [*_frame_rows(model)]
        if model is Stop:
            rows += [("plateau." + row[0], *row[1:]) for row in _frame_rows(Plateau)]
        lines += [f"## {key}", "", _text(model), "", *_table(rows), ""]
        if model is Evaluate:
            lines += _parts("measures", "evaluate.measures")
    return "\n".join([*lines, FOOTER.format("simfl schema")])


PROFILES_INTRODUCTION = """\
# Keys of a profile

A profile is a YAML file of one machine, link or region: `devices/` has the shipped ones, and a
scenario's `population.profiles` names folders with your own (`simfl new --device my_pi` makes one).
Every profile has `kind` (`device`, `server`, `link` or `region`), `sources` (path of a figure, as
`processor.kappa`, -> where it comes from) and `unverified` (paths of the figures that are
estimates; those in neither list count as such). `simfl calibrate` adds `uncertainty` and
`calibrated` ([calibrate.md](calibrate.md)). A number may stand with its interval, as
`{value: 2.6e10, interval: [2.0e10, 3.3e10]}` ([its
meaning](calibrate.md#what-a-profile-says-of-its-figures)).
[hardware.md](hardware.md) has the formulas. Batteries, their charging and where devices
stand belong to a scenario's population ([scenario.md](scenario.md)).
"""


def profiles_reference() -> str:
    """The text of profiles.md."""
    lines = [PROFILES_INTRODUCTION]
    for kind, what in {
        "device": "A client's machine; how it computes stands under `processor`.",
        "server": "An edge or cloud server, with a `processor` too.",
        "region": "Electricity of one place, from midnight at time 0.",
    }.items():
        schema = registry.profile_keys(kind)
        rows = _rows(schema["properties"], schema["required"])
        lines += [f"## {kind}", "", what, "", *_table(rows), ""]
    lines += ["## link", "", "It has one key, `link`: one of the models below.", ""]
    lines += [
        "## processor",
        "",
        "Of a device or a server.",
        "",
        *_parts("processors", "processor"),
    ]
    lines += ["## Models of links", "", *_parts("links", "link")]
    return "\n".join([*lines, FOOTER.format("simfl schema --profile")])


def plugins_page() -> str:
    """The text of plugins.md with its blocks brought up to date."""
    text = (FOLDER / "plugins.md").read_text(encoding="utf-8")
    block = re.compile(r"<!-- (examples/\S+)(?: (\w+))? -->\n```(\w+)\n.*?```\n", re.DOTALL)
    return block.sub(_fresh_block, text)


def _fresh_block(found: re.Match[str]) -> str:
    file, key, language = found.groups()
    content = (FOLDER / file).read_text(encoding="utf-8")
    if key:
        section = re.search(rf"^{key}:.*?(?=^\S|\Z)", content, re.DOTALL | re.MULTILINE)
        if section is None:
            raise ValueError(f"{file} has no section {key}")
        content = section.group().rstrip() + "\n"
    comment = found.group().partition("\n")[0]
    return f"{comment}\n```{language}\n{content}```\n"


Row = tuple[str, str, str, str]


def _frame_rows(model: type[BaseModel]) -> Iterator[Row]:
    """Key, what it accepts, default and meaning of every key of a section of the frame."""
    schema = model.model_json_schema()
    for key, node in schema["properties"].items():
        field = model.model_fields[key]
        default = field.get_default(call_default_factory=True)
        accepted, meaning = accepted_text(node, schema), node.get("description", "")
        shown = "**needed**" if field.is_required() else ""
        if meaning == PART_SCHEMA["description"]:
            accepted, meaning = "a part, below", ""
        if isinstance(default, Part):
            shown = _show(default.name)
        elif "$ref" in json.dumps(node):
            accepted = "a section, below" + (" or null" if default is None else "")
        elif not field.is_required():
            shown = _show(default)
        yield key, accepted, shown, meaning


def _parts(kind: str, key: str) -> list[str]:
    """Every part of a kind with its keys; keys that all of them share come first."""
    parts = [one for one in registry.schema(kind)["oneOf"] if "title" in one]
    shared = {
        name: node
        for name, node in parts[0]["properties"].items()
        if len(parts) > 1 and all(one["properties"].get(name) == node for one in parts)
    }
    lines = []
    if shared:
        needed = parts[0]["required"]
        lines += [f"Keys of every `{key}`:", "", *_table(_rows(shared, needed)), ""]
    for one in parts:
        own = {name: node for name, node in one["properties"].items() if name not in shared}
        name = own.pop("name")["const"]
        lines += [f"### {key}: {name}", "", _paragraphs(one["description"]), ""]
        if own:
            lines += [*_table(_rows(own, one["required"])), ""]
        if kind == "measures":
            figures = ", ".join(f"`{name}.{figure}`" for figure in FIGURES_OF_MEASURES[name])
            lines += [f"In studies: {figures}.", ""]
    return lines


def _rows(nodes: Schema, needed: list[str]) -> Iterator[Row]:
    for key, accepted, default, meaning in key_rows(nodes, needed):
        yield key, accepted, f"`{default}`" if default else "**needed**", meaning


def _show(value: Any) -> str:
    return f"`{default_text(value)}`"


def _table(rows: Iterator[Row] | list[Row]) -> list[str]:
    cells = [(f"`{key}`", *(text.replace("|", "\\|") for text in rest)) for key, *rest in rows]
    head = [("key", "accepted", "default", "meaning"), ("---",) * 4]
    return [f"| {' | '.join(row)} |" for row in [*head, *cells]]


def _text(model: type[BaseModel]) -> str:
    return _paragraphs(inspect.getdoc(model) or "")


def _paragraphs(text: str) -> str:
    return "\n\n".join(one.replace("\n", " ") for one in text.split("\n\n"))


def main() -> None:
    """Write scenario.md, profiles.md, api.md and the blocks of plugins.md."""
    api_page = runpy.run_path(str(FOLDER / "make_api.py"))["api_page"]
    (FOLDER / "api.md").write_text(api_page(), encoding="utf-8")
    (FOLDER / "scenario.md").write_text(scenario_reference(), encoding="utf-8")
    (FOLDER / "profiles.md").write_text(profiles_reference(), encoding="utf-8")
    (FOLDER / "plugins.md").write_text(plugins_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
