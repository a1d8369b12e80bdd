"""Names in a scenario -> classes, found in the packages of each kind of part.

A part is a concrete public class, derived from its kind's base class and written in a module of its
kind's package, so that adding a part is adding a file. Its name is its class attribute `name`,
otherwise its class name in snake case. An import path names a user's own class.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from simfl.assembly.own_names import annotated_without_fields
from simfl.common.contract import is_users_own
from simfl.common.part_name import part_name
from simfl.common.suggestion import nearest
from simfl.scenario.plugins import PluginError, import_class, is_import_path
from simfl.scenario.scenario import frame_schema
from simfl.scenario.sections import (
    OF_GROUPS,
    AlgorithmSection,
    DataSection,
    Decisions,
    Part,
    PopulationSection,
)
from simfl.scenario.validation.defaults import refused_defaults
from simfl.scenario.validation.keys import REQUIRED, adapter, json_schema, parameters, plain
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.error import show
from simfl.scenario.yaml_source.source import KeyPath, Source


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of part: its package, its base class ("module:Class"), and its frame.

    `foreign` is a base class of the user's classes that do not know simfl; such a class is not
    built but returned as a `functools.partial` that awaits the arguments `supplied`. `beside` are
    keys of the frame that stand in the same section as the part's own.
    """

    package: str
    base: str
    foreign: str = ""
    supplied: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


SECTIONS = {
    "datasets": "data",
    "partitions": "data.partition",
    "models": "model",
    "populations": "population",
    "availability": "population.availability, or availability of a group",
    "codecs": "population.uplink_codec or downlink_codec",
    "sharing": "population.access_sharing or backhaul_sharing",
    "measures": "evaluate.measures",
    "processors": "processor of a device's or server's profile",
    "links": "link of a link's profile",
    "algorithms": "algorithm",
    "protocols": "protocol",
    **{kind: f"decisions.{kind}" for kind in Decisions.model_fields},
    "allocation": "decisions.allocation, or allocation of a group",
}
"""The keys at which each kind of part is used."""

KINDS = {
    "datasets": Kind(
        "simfl.learning.datasets",
        "simfl.learning.datasets.base:Dataset",
        beside=tuple(DataSection.model_fields),
    ),
    "partitions": Kind("simfl.learning.partitions", "simfl.learning.partitions.base:Partition"),
    "models": Kind(
        "simfl.learning.models",
        "simfl.learning.models.base:Model",
        foreign="torch.nn:Module",
        supplied=("input_shape", "outputs"),
    ),
    "populations": Kind(
        "simfl.system.populations",
        "simfl.system.populations.base:Population",
        beside=tuple(PopulationSection.model_fields),
    ),
    "availability": Kind(
        "simfl.system.availability", "simfl.system.availability.base:Availability"
    ),
    "codecs": Kind("simfl.system.codecs", "simfl.system.codecs.base:Codec"),
    "sharing": Kind("simfl.system.sharing", "simfl.system.sharing.base:Sharing"),
    "measures": Kind("simfl.measures", "simfl.measures.base:Measure"),
    "processors": Kind("simfl.system", "simfl.system.processor:Processor"),
    "links": Kind("simfl.system", "simfl.system.link:Link"),
    "algorithms": Kind(
        "simfl.algorithms",
        "simfl.algorithms.base:Algorithm",
        beside=tuple(AlgorithmSection.model_fields),
    ),
    "protocols": Kind("simfl.protocols", "simfl.protocols.base:Protocol"),
    **{
        kind: Kind(
            f"simfl.decisions.{'estimation' if kind == 'estimator' else kind}",
            f"simfl.decisions.base:{kind.capitalize()}",
        )
        for kind in Decisions.model_fields
    },
}


def names(kind: str) -> list[str]:
    """The names of the shipped parts of a kind."""
    return sorted(discover(KINDS[kind].package, KINDS[kind].base))


@cache
def discover(package: str, base: str) -> Mapping[str, type]:
    """The parts in a package by name."""
    found: dict[str, type] = {}
    for module in _modules(package):
        for one in _parts_of(f"{package}.{module}", base):
            name = part_name(one)
            if name in found:
                raise TypeError(f"{one} and {found[name]} have the same name {name!r}")
            found[name] = one
    return found


@cache
def shipped(kind: str, name: str) -> type | None:
    """The shipped part of this name; None if there is none.

    Most are in a module of that name, so no other module is imported for them.
    """
    package, base = KINDS[kind].package, KINDS[kind].base
    if name in _modules(package):
        for one in _parts_of(f"{package}.{name}", base):
            if part_name(one) == name:
                return one
    return discover(package, base).get(name)


def _modules(package: str) -> list[str]:
    """The names of a package's modules."""
    path = importlib.import_module(package).__path__
    return [info.name for info in pkgutil.iter_modules(path)]


def _parts_of(module: str, base: str) -> list[type]:
    """The parts in a module: concrete public subclasses of the class `base`."""
    parent = import_class(base, Path())
    return [
        one
        for one in vars(importlib.import_module(module)).values()
        if inspect.isclass(one)
        and one.__module__ == module
        and issubclass(one, parent)
        and one is not parent
        and not inspect.isabstract(one)
        and not one.__name__.startswith("_")
    ]


def resolve(kind: str, name: str, base_dir: Path, where: KeyPath | None = None) -> type:
    """The class that `name` stands for; files of import paths are relative to `base_dir`.

    Raises ScenarioError, placed at `where` (the part's section), if there is none.
    """
    section = where or KeyPath(Source(kind, base_dir, {}))
    place = section.child("name")
    if not is_import_path(name):
        part = shipped(kind, name)
        if part is not None:
            return part
        known = discover(KINDS[kind].package, KINDS[kind].base)
        accepted = f"{', '.join(sorted(known))}, or an import path such as file.py:Class"
        hint = _meant(name, known.values()) or nearest(name, known) or ";"
        message = f"unknown name {name!r}{hint} accepted: {accepted}"
        raise place.error(show(name), accepted, message)
    try:
        part_class = import_class(name, base_dir)
    except PluginError as error:
        raise place.error(error.found, error.accepted) from error
    bases = [base for base in (KINDS[kind].base, KINDS[kind].foreign) if base]
    if not any(issubclass(part_class, import_class(base, Path())) for base in bases):
        public = [
            f"simfl.plugins.{base.partition(':')[2]}" if base.startswith("simfl.") else base
            for base in bases
        ]
        accepted = " or ".join(public).replace(":", ".")
        raise place.error(f"the class {name!r}", f"a subclass of {accepted}")
    if inspect.isabstract(part_class):
        missing = ", ".join(sorted(getattr(part_class, "__abstractmethods__", ())))
        found = f"the class {name!r}, which does not define {missing}"
        raise place.error(found, "a class with all methods of its base class")
    return part_class


def _meant(name: str, parts: Iterable[type]) -> str:
    """Part of an error message: a part that is known by other names, if `name` is one of them."""
    told = [part.meant_by(name) for part in parts if hasattr(part, "meant_by")]
    return next((f", did you mean {one}?" for one in told if one), "")


def build(kind: str, part: Part | Mapping[str, Any] | str, where: KeyPath) -> Any:
    """The object that a part describes; raises ScenarioError, placed at `where`.

    A foreign class (`Kind.foreign`) comes back as a `functools.partial` over its parameters.
    """
    one = _as_part(part, where)
    part_class = resolve(kind, one.name, where.source.base_dir, where)
    checker = _adapter(kind, part_class, where)
    if is_users_own(part_class):
        for key, default, accepted in refused_defaults(part_class, one.parameters):
            raise where.child(key).error(f"{show(default)}, the class's own default", accepted)
    return validate(checker, one.parameters, where, beside=("name", *KINDS[kind].beside))


def complete(kind: str, part: Part | Mapping[str, Any] | str, where: KeyPath) -> dict[str, Any]:
    """The part's keys, name included, with every default filled in, as plain values."""
    one = _as_part(part, where)
    built = build(kind, one, where)
    parameters = plain(built) if dataclasses.is_dataclass(built) else one.parameters
    return {"name": one.name, **parameters}


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a part of this kind: one alternative per name, and any import path."""
    known = discover(KINDS[kind].package, KINDS[kind].base)
    alternatives: list[dict[str, Any]] = [
        {"type": "string", "enum": sorted(known), "description": "the part with its defaults"},
        {"type": "string", "pattern": ":", "description": "import path, such as file.py:Class"},
        {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": ":"}},
            "required": ["name"],
        },
    ]
    alternatives += [part_schema(part_class, name) for name, part_class in sorted(known.items())]
    return {"oneOf": alternatives}


def part_schema(part_class: type, name: str) -> dict[str, Any]:
    """JSON Schema of one part, which a scenario calls `name`."""
    one = json_schema(adapter(part_class))
    return {
        **one,
        "title": part_class.__name__,
        "description": inspect.getdoc(part_class) or "",
        "properties": {"name": {"const": name}, **one.get("properties", {})},
        "required": ["name", *one.get("required", [])],
    }


def found_as(name: str, base_dir: Path) -> dict[str, type]:
    """The parts of this name by their kind, or the class of an import path by its own.

    Raises PluginError where an import path leads to no class.
    """
    if not is_import_path(name):
        known = {kind: discover(one.package, one.base) for kind, one in KINDS.items()}
        return {kind: parts[name] for kind, parts in known.items() if name in parts}
    part_class = import_class(name, base_dir)
    return {
        kind: part_class
        for kind, one in KINDS.items()
        if issubclass(part_class, import_class(one.base, Path()))
    }


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a whole scenario file, for an editor's completion."""
    result = frame_schema()
    frame = result["properties"]
    frame["model"], frame["protocol"] = schema("models"), schema("protocols")
    definitions = result["$defs"]
    for kind in definitions["Decisions"]["properties"]:
        definitions["Decisions"]["properties"][kind] = schema(kind)
    data = definitions["DataSection"]["properties"]
    data["partition"] = schema("partitions")
    population = definitions["PopulationSection"]["properties"]
    population["availability"] = schema("availability")
    population["uplink_codec"] = population["downlink_codec"] = schema("codecs")
    population["access_sharing"] = population["backhaul_sharing"] = schema("sharing")
    definitions["Evaluate"]["properties"]["measures"]["items"] = schema("measures")
    algorithm = definitions["AlgorithmSection"]["properties"]
    frame["algorithm"] = _beside(algorithm, "algorithms")
    frame["data"] = _beside(data, "datasets")
    frame["population"] = _beside(population, "populations")
    for one in frame["population"]["oneOf"]:
        groups = one.get("properties", {}).get("groups")
        for kind in OF_GROUPS if groups else ():
            described = groups["items"]["properties"][kind]
            own = {"anyOf": [schema(kind), {"type": "null"}]}
            groups["items"]["properties"][kind] = {**described, **own}
    return result


PROFILES = {
    "device": "simfl.system.device:Device",
    "server": "simfl.system.device:Server",
    "region": "simfl.system.region:Region",
}
"""The class of each kind of profile; a link profile has only its `link`."""

_OF_EVERY_PROFILE = {
    "sources": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "sources of figures, by their paths, such as processor.kappa",
    },
    "unverified": {
        "type": "array",
        "items": {"type": "string"},
        "description": "paths of figures that are estimates",
    },
    "uncertainty": {
        "type": "object",
        "description": (
            "intervals of figures, by their paths, and joint draws: see calibrate.md; an interval"
            " may also be given with its figure"
        ),
    },
    "calibrated": {
        "type": "object",
        "description": (
            "the conditions of the measurements: rows, models, kinds, batches, frequencies"
        ),
    },
}


def profile_keys(kind: str) -> dict[str, Any]:
    """JSON Schema of a profile's own keys: without those of its processor or link."""
    if kind == "link":
        return {"type": "object", "properties": {}, "required": []}
    cls = import_class(PROFILES[kind], Path())
    own = [
        (one.name, one.annotation)
        if one.default is REQUIRED
        else (one.name, one.annotation, dataclasses.field(default=one.default))
        for one in parameters(cls)[0]
        if one.name not in ("name", "processor", *_OF_EVERY_PROFILE)
    ]
    own.sort(key=len)  # required ones first
    return {"required": [], **json_schema(adapter(dataclasses.make_dataclass(kind, own)))}


def profile_schema() -> dict[str, Any]:
    """JSON Schema of a profile's file: a device, a server, a link or a region."""
    parts = {"device": "processor", "server": "processor", "link": "link"}
    alternatives = []
    for kind in ("device", "server", "link", "region"):
        one, part = profile_keys(kind), parts.get(kind)
        inner = {part: schema(f"{part}s")} if part else {}
        figures = _with_intervals({**one["properties"], **inner})
        keys = {"kind": {"const": kind}, **figures, **_OF_EVERY_PROFILE}
        needed = ["kind", *one["required"], *inner]
        alternatives.append({**one, "title": kind, "properties": keys, "required": needed})
    return {"oneOf": alternatives, "$defs": {"interval": _INTERVAL}}


_INTERVAL = {
    "type": "object",
    "description": "a figure with its 90 % interval; a plain run uses the value",
    "properties": {
        "value": {"type": "number"},
        "interval": {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 2,
            "maxItems": 2,
            "description": "the two ends of the interval, with the value between them",
        },
        "distribution": {"enum": ["lognormal", "normal"], "default": "lognormal"},
    },
    "required": ["value", "interval"],
    "additionalProperties": False,
}


def _with_intervals(node: Any) -> Any:
    """A schema in which every number may be a figure with its interval."""
    if isinstance(node, list):
        return [_with_intervals(one) for one in node]
    if not isinstance(node, Mapping):
        return node
    if node.get("type") == "number":
        return {"anyOf": [node, {"$ref": "#/$defs/interval"}]}
    # Entries of a list cannot have an interval of their own.
    return {key: one if key == "items" else _with_intervals(one) for key, one in node.items()}


def _beside(section: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Schema of a section in which a part's own keys stand beside those of the frame."""
    return {
        "oneOf": [
            {**one, "properties": {**section, **one["properties"]}}
            if one["type"] == "object"
            else one
            for one in schema(kind)["oneOf"]
        ]
    }


def _as_part(part: Part | Mapping[str, Any] | str, where: KeyPath) -> Part:
    if isinstance(part, Part):
        return part
    if isinstance(part, str):
        return Part(name=part)
    if not isinstance(part.get("name"), str):
        raise where.child("name").error(show(part.get("name")), "a part's name")
    return Part.model_validate(dict(part))


def _adapter(kind: str, part_class: type, where: KeyPath) -> Any:
    construct = None
    supplied: tuple[str, ...] = ()
    if not issubclass(part_class, import_class(KINDS[kind].base, Path())):
        construct, supplied = partial(partial, part_class), KINDS[kind].supplied
    elif is_users_own(part_class) and (names := annotated_without_fields(part_class)):
        found = f"the class {part_class.__name__!r}, no dataclass, which annotates {names[0]!r}"
        accepted = "a class with @dataclass(frozen=True) above it, whose keys are its fields"
        raise where.child("name").error(found, accepted)
    try:
        return adapter(part_class, construct, supplied)
    except (NameError, TypeError) as error:
        found = f"the class {part_class.__name__!r}, whose fields cannot be read ({error})"
        raise where.child("name").error(found, "a class with typed fields") from error
