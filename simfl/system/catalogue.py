"""The catalogue: devices, servers, links and regions as data, one YAML file each, with sources.

A file names its `kind` (device, server, link or region); its other keys are the fields of `Device`
or `Server`, with the processor's fields under `processor:`, a link's fields under `link:`, or the
fields of `Region`. A
processor or link is a part with a `name`: one of this room's, or an import path to one's own class,
a file being relative to the profile's own folder.
`sources` maps field paths ("processor.kappa") to where the figure comes from; `unverified` lists
those without a source; `uncertainty` and `calibrated` are what calibration adds. A figure may stand
there with its interval (uncertainty.py); a catalogue may have the machines of a draw (drawn.py).
The comment at the head of a file says what the thing is.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

import simfl.system
from simfl.system.cost import MissingCost
from simfl.system.device import Device, Server
from simfl.system.drawn import drawn_values, is_uncertain
from simfl.system.fields import build, shown, suggestion
from simfl.system.link import Link
from simfl.system.processor import Processor
from simfl.system.region import Region
from simfl.system.uncertainty import (
    Calibrated,
    Uncertainty,
    read_calibrated,
    read_uncertainty,
    without_intervals,
)

Kind = Literal["device", "server", "link", "region"]
KINDS: tuple[Kind, ...] = ("device", "server", "link", "region")

Resolve = Callable[[str, Mapping[str, Any]], Any]
"""(part kind "processors" or "links", {name: import path, **fields}) -> instance."""

Part = TypeVar("Part", Processor, Link)
Machine = TypeVar("Machine", Device, Server)
Made = TypeVar("Made")


class CatalogueError(ValueError):
    """A profile does not exist or its file is wrong; one line that names file and field."""


@dataclass(frozen=True)
class Profile:
    """One file as it stands: `values` are its keys without those that are about figures.

    Those are the fields below `values`, and `kind`. `about` is the first sentence of the comment at
    the head of the file, empty where there is none.
    """

    name: str
    about: str
    kind: Kind
    path: Path
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    unverified: tuple[str, ...]
    uncertainty: Uncertainty = field(default_factory=Uncertainty)
    calibrated: Calibrated | None = None

    def figures(self) -> list[str]:
        """Paths of all fields that hold a number or a table of numbers."""
        return [path for path, value in _leaves(self.values) if _is_figure(value)]

    @property
    def is_uncertain(self) -> bool:
        """Whether its machine is another one in some draw."""
        return is_uncertain(self.uncertainty, self.unverified, self.figures())

    def drawn(self, number: int) -> dict[str, Any]:
        """Its `values` at a draw: what the machine may be instead."""
        named = f"{self.kind}.{self.name}"
        return drawn_values(self.values, named, self.uncertainty, self.unverified, number)


class Catalogue:
    """Profiles by name, from one's own folders first, then from the shipped catalogue.

    `folders` are relative to `base`, a scenario's folder. `resolve` builds processors and links
    that a file names by import path. A file is read once, for all catalogues made of this one.
    With a `draw` its machines are those of that draw of their uncertain figures.
    """

    def __init__(
        self,
        folders: Sequence[str | Path] = (),
        base: str | Path = ".",
        resolve: Resolve | None = None,
        draw: int | None = None,
    ) -> None:
        self._base = Path(base)
        self._resolve = resolve
        self._draw = draw
        self._known: dict[Path, Profile] = {}
        self._folders = [self._base / folder for folder in folders]
        for folder in self._folders:
            if not folder.is_dir():
                raise CatalogueError(f"{folder}: no such folder of profiles")

    def with_folders(self, folders: Sequence[str | Path]) -> Catalogue:
        """This catalogue with `folders` searched before its own."""
        absolute = [folder.absolute() for folder in self._folders]
        wider = Catalogue([*folders, *absolute], self._base, self._resolve, self._draw)
        wider._known = self._known
        return wider

    def list_profiles(self, kind: Kind) -> list[str]:
        """Names of all profiles of a kind, sorted."""
        return sorted(name for name in self._files if self._read(name).kind == kind)

    def holds(self, kind: Kind, name: str) -> bool:
        """Whether there is a profile of that kind and name."""
        return name in self._files and self._read(name).kind == kind

    def profile(self, kind: Kind, name: str) -> Profile:
        """The profile `name` as it stands in its file, not yet checked field by field."""
        if name not in self._files:
            raise CatalogueError(
                f"unknown {kind} '{name}'{suggestion(name, self.list_profiles(kind))}"
            )
        profile = self._read(name)
        if profile.kind != kind:
            names = ", ".join(self.list_profiles(kind))
            raise CatalogueError(
                f"'{name}' is a {profile.kind}, accepted: a {kind}, one of {names}"
            )
        return profile

    def device(self, name: str) -> Device:
        """The client device `name`."""
        return self._machine(Device, self.profile("device", name))

    def server(self, name: str) -> Server:
        """The edge or cloud server `name`."""
        return self._machine(Server, self.profile("server", name))

    def link(self, name: str) -> Link:
        """The link `name`."""
        profile = self.profile("link", name)
        for key in profile.values:
            if key != "link":
                raise CatalogueError(
                    f"{profile.path}: {key}: unknown key{suggestion(key, ['link'])}"
                )
        return self._part(Link, "link", profile)  # type: ignore[type-abstract]  # not called

    def region(self, name: str) -> Region:
        """The region `name`, whose electricity clients and servers use."""
        profile = self.profile("region", name)
        named = {"name": name, "sources": profile.sources, "unverified": profile.unverified}
        return _guarded(f"{profile.path}", lambda: build(Region, {**profile.values, **named}))

    def _machine(self, cls: type[Machine], profile: Profile) -> Machine:
        own = self._values(profile)
        processor = self._part(Processor, "processor", profile)  # type: ignore[type-abstract]  # not called
        values = {
            **own,
            "name": profile.name,
            "processor": processor,
            "sources": profile.sources,
            "unverified": profile.unverified,
        }
        return _guarded(f"{profile.path}", lambda: build(cls, values))

    def _values(self, profile: Profile) -> Mapping[str, Any]:
        """A profile's figures, as it says them or at this catalogue's draw."""
        return profile.values if self._draw is None else profile.drawn(self._draw)

    def _part(self, base: type[Part], key: str, profile: Profile) -> Part:
        """The processor or link that the file describes under `key`."""
        where = f"{profile.path}: {key}"
        own = self._values(profile)
        values = own.get(key)
        if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
            raise CatalogueError(f"{where}: missing or not a mapping with a name")
        name = values["name"]
        if ":" in name:
            return self._imported(base, key, values, profile.path.parent, where)
        known = _parts(base)
        if name not in known:
            raise CatalogueError(f"{where}.name: unknown {key} '{name}'{suggestion(name, known)}")
        arguments = {field: value for field, value in values.items() if field != "name"}
        if "power_active_w" in arguments and "power_idle_w" in own:
            # A wattmeter sees the whole device.
            arguments = {"power_idle_w": own["power_idle_w"], **arguments}
        return _guarded(where, lambda: build(known[name], arguments), separator=".")

    def _imported(
        self, base: type[Part], key: str, values: Mapping[str, Any], folder: Path, where: str
    ) -> Part:
        if self._resolve is None:
            raise CatalogueError(f"{where}.name: import paths need a scenario that resolves them")
        resolve = self._resolve
        module, _, class_name = values["name"].rpartition(":")
        # A file is looked for beside the profile, so that it is found from any scenario's folder.
        path = f"{(folder / module).absolute() if module.endswith('.py') else module}:{class_name}"
        part: object = _guarded(where, lambda: resolve(f"{key}s", {**values, "name": path}))
        if not isinstance(part, base):
            raise CatalogueError(f"{where}.name: {values['name']} is not a {base.__name__}")
        return part

    @cached_property
    def _files(self) -> dict[str, Path]:
        """File of each name; one's own folders win over the shipped catalogue."""
        folders = [shipped_folder(), *reversed(self._folders)]
        return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}

    def _read(self, name: str) -> Profile:
        path = self._files[name]
        if path not in self._known:
            self._known[path] = self._profile(name, path)
        return self._known[path]

    def _profile(self, name: str, path: Path) -> Profile:
        try:
            text = path.read_text(encoding="utf-8-sig")
            content = deepcopy(_parsed(text))
        except OSError as error:
            raise CatalogueError(f"{path}: an unreadable file ({error.strerror})") from error
        except RecursionError:
            raise CatalogueError(f"{path}: nested without end, accepted: a few levels") from None
        # PyYAML's constructors raise plain errors for what they cannot read ("!!int x", year 0).
        except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise CatalogueError(_not_yaml(path, error)) from error
        if not isinstance(content, Mapping):
            found = "an empty file" if content is None else shown(content)
            raise CatalogueError(f"{path}: found {found}, accepted: a mapping")
        values = dict(content)
        kind = values.pop("kind", None)
        if kind not in KINDS:
            raise CatalogueError(f"{path}: kind: found {shown(kind)}, accepted: {', '.join(KINDS)}")
        sources, unverified = values.pop("sources", {}), values.pop("unverified", [])
        if not isinstance(sources, Mapping) or not isinstance(unverified, list):
            raise CatalogueError(f"{path}: sources is a mapping, unverified a list of fields")
        spread, calibrated = values.pop("uncertainty", {}), values.pop("calibrated", None)
        values, beside = _guarded(f"{path}", lambda: without_intervals(values))
        known = dict(_leaves(values))
        profile = Profile(
            name,
            _about(text),
            kind,
            path,
            values,
            sources,
            tuple(unverified),
            _guarded(f"{path}", lambda: read_uncertainty(spread, known, beside)),
            None
            if calibrated is None
            else _guarded(f"{path}", lambda: read_calibrated(calibrated)),
        )
        for figure in (*sources, *unverified):
            if figure not in known:
                near = suggestion(figure, known)
                raise CatalogueError(f"{path}: sources: no field {figure}{near}")
        return profile


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The content of a profile; parsed once, for a study reads the same ones for every point."""
    return yaml.load(text, Loader=_Loader)


def shipped_folder() -> Path:
    """The catalogue inside an installed package, or beside the package in a checkout."""
    package = Path(simfl.system.__file__).parents[1]
    installed = package / "_data" / "devices"
    return installed if installed.is_dir() else package.parent / "devices"


def _about(text: str) -> str:
    """The first sentence of the comment lines at the head of a file."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ").rstrip() for line in lines)
    return comment.partition(". ")[0].removesuffix(".")


def _not_yaml(path: Path, error: Exception) -> str:
    """File, line and problem of text that is no YAML."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    place = f"{path}:{mark.line + 1}" if mark else f"{path}"
    problem = getattr(error, "problem", None) or str(error)
    return f"{place}: not valid YAML: {' '.join(problem.split())}"


class _Loader(yaml.SafeLoader):
    """YAML in which 7e-29 is a number (YAML 1.1 wants 7.0e-29) and a repeated key is an error.

    Aliases are errors too: a few of them can stand for billions of values. And 10:00 is text, where
    YAML 1.1 counts by sixties: 600.
    """

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """The tag of a node."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        by_sixties = kind is yaml.ScalarNode and ":" in value and tag.endswith((":int", ":float"))
        return "tag:yaml.org,2002:str" if by_sixties else tag

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, which must not be an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"found the alias *{event.anchor}, accepted: values", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are all different."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = [key for key in keys if keys.count(key) > 1]
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated[0]}: given twice")
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _parts(base: type[Part]) -> dict[str, type[Part]]:
    """Concrete subclasses of `base` in this room's modules, by part name.

    Found by looking, so that a new kind of processor or link is one new file.
    """
    return {
        vars(cls).get("name") or _snake_case(cls.__name__): cls
        for cls in _own_classes()
        if issubclass(cls, base)
    }


@cache
def _own_classes() -> Sequence[type]:
    """The concrete classes that this room's modules define."""
    modules = [
        importlib.import_module(f"simfl.system.{module.name}")
        for module in pkgutil.iter_modules(simfl.system.__path__)
        if not module.ispkg
    ]
    return [
        cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and not inspect.isabstract(cls)
    ]


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _guarded(where: str, make: Callable[[], Made], separator: str = ": ") -> Made:
    """`make()`, its errors told with the file and the key they are about."""
    try:
        return make()
    except MissingCost as missing:
        raise missing.of(where) from missing
    except ValueError as error:
        raise CatalogueError(f"{where}{separator}{error}") from error


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Field paths with their values; a list is one value."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_figure(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_figure(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)
