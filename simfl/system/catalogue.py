"""The catalogue: devices, servers, links and regions as data, one YAML file each, with sources.

A file names its `kind` (device, server, link or region); its other keys are the fields of `Device`
or `Server`, with the processor's fields under `processor:`, a link's fields under `link:`, or the
fields of `Region`. A processor or link is a part with a `name`: one of this package, or an import
path to a user's class, where files are relative to the profile's folder. `sources` maps field paths
("processor.kappa") to the source of the figure; `unverified` lists those without a source;
`uncertainty` and `calibrated` are added by calibration. A figure may be given with its interval
(uncertainty.py); a catalogue may contain the machines of a draw (hardware_draws.py). The comment at
the head of a file describes the item.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

import simfl.system
from simfl.system.cost import MissingCost
from simfl.system.device import Device, Server
from simfl.system.fields import FieldError, build, check, checked, field_names, shown, suggestion
from simfl.system.hardware_draws import drawn_values, is_uncertain
from simfl.system.link import Link
from simfl.system.processor import Processor
from simfl.system.profile_text import about, not_yaml, parsed, placed
from simfl.system.region import Region
from simfl.system.uncertainty import (
    SECONDS,
    Calibrated,
    Interval,
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
    """A file's content: `values` are its keys, except those about figures and `kind`.

    The fields below `values` are the keys about figures. `about` is the first sentence of the
    comment at the head of the file, empty if there is none.
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

    def numbers(self) -> list[tuple[str, list[float]]]:
        """Paths and values of all fields that hold a number or a list of numbers."""
        found = []
        for path, value in _leaves(self.values):
            listed = value if isinstance(value, list) else [value]
            if all(_is_figure(one) and not isinstance(one, list) for one in listed):
                found.append((path, [float(one) for one in listed]))
        return found

    def estimates(self) -> list[str]:
        """Paths of unverified figures: declared as such, or without a source."""
        known = set(self.sources) - set(self.unverified)
        return [path for path in self.figures() if path not in known]

    @property
    def is_uncertain(self) -> bool:
        """Whether draws change its machine."""
        return is_uncertain(self.uncertainty, self.unverified, self.figures())

    def drawn(self, number: int) -> dict[str, Any]:
        """Its `values` at a draw."""
        named = f"{self.kind}.{self.name}"
        return drawn_values(self.values, named, self.uncertainty, self.unverified, number)


class Catalogue:
    """Profiles by name, from the user's folders first, then from the shipped catalogue.

    `folders` are relative to `base`, a scenario's folder. `resolve` builds processors and links
    that a file names by import path. Files are cached, for all catalogues derived from this one.
    With a `draw`, the machines have their uncertain figures from that draw.
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
        """The profile `name` as in its file, before its fields are checked."""
        if name not in self._files:
            for file in (folder / f"{name}.yml" for folder in self._folders):
                if file.is_file():
                    raise CatalogueError(f"{file}: found the ending .yml, accepted: .yaml")
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
        profile = self.profile("device", name)
        return self._made(profile, lambda values: self._machine(Device, profile, values))

    def server(self, name: str) -> Server:
        """The edge or cloud server `name`."""
        profile = self.profile("server", name)
        return self._made(profile, lambda values: self._machine(Server, profile, values))

    def link(self, name: str) -> Link:
        """The link `name`."""
        profile = self.profile("link", name)
        return self._made(
            profile,
            lambda values: self._part(Link, "link", profile, values),  # type: ignore[type-abstract]  # not called
        )

    def region(self, name: str) -> Region:
        """The region `name`, whose electricity clients and servers use."""
        profile = self.profile("region", name)
        named = {"name": name, "sources": profile.sources, "unverified": profile.unverified}
        return _guarded(profile.path, lambda: build(Region, {**profile.values, **named}))

    def _made(self, profile: Profile, make: Callable[[Mapping[str, Any]], Made]) -> Made:
        """What `make` makes of a profile's figures: those of its file, or of this catalogue's draw.

        The file's own figures are checked before any draw.
        """
        plain = make(profile.values)
        return plain if self._draw is None else make(profile.drawn(self._draw))

    def _machine(self, cls: type[Machine], profile: Profile, own: Mapping[str, Any]) -> Machine:
        # The machine's own keys first, since the processor needs the idle power of the whole
        # machine.
        plain = {key: value for key, value in own.items() if key != "processor"}
        _guarded(profile.path, lambda: checked(cls, plain, without=("processor", *_NOT_KEYS)))
        processor = self._part(Processor, "processor", profile, own)  # type: ignore[type-abstract]  # not called
        values = {
            **own,
            "name": profile.name,
            "processor": processor,
            "sources": profile.sources,
            "unverified": profile.unverified,
        }
        return _guarded(profile.path, lambda: build(cls, values))

    def _part(self, base: type[Part], key: str, profile: Profile, own: Mapping[str, Any]) -> Part:
        """The processor or link described under `key` of a profile's figures."""
        values = own.get(key)
        if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
            unnamed = isinstance(values, Mapping) and "name" not in values
            found = "nothing" if values is None else shown(values)
            found = "a section without a name" if unnamed else found
            raise _wrong(profile.path, f"{key}: found {found}, accepted: a section with a name")
        name = values["name"]
        if ":" in name:
            return self._imported(base, key, values, profile.path)
        known = _parts(base)
        if name not in known:
            message = f"{key}.name: unknown {key} '{name}'{suggestion(name, known)}"
            raise _wrong(profile.path, message)
        arguments = {field: value for field, value in values.items() if field != "name"}
        if "power_active_w" in arguments and "power_idle_w" in own:
            # Measured watts are those of the whole device, and include its idle power.
            arguments = {"power_idle_w": own["power_idle_w"], **arguments}
        return _guarded(profile.path, lambda: build(known[name], arguments), f"{key}.")

    def _imported(self, base: type[Part], key: str, values: Mapping[str, Any], file: Path) -> Part:
        if self._resolve is None:
            raise _wrong(file, f"{key}.name: import paths need a scenario that resolves them")
        resolve = self._resolve
        module, _, class_name = values["name"].rpartition(":")
        # A file is searched for beside the profile, so that scenarios in any folder find it.
        beside = (file.parent / module).absolute()
        path = f"{beside if module.endswith('.py') else module}:{class_name}"
        part: object = _guarded(
            file, lambda: resolve(f"{key}s", {**values, "name": path}), f"{key}: "
        )
        if not isinstance(part, base):
            raise _wrong(file, f"{key}.name: {values['name']} is not a {base.__name__}")
        return part

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Files by name; the user's folders take precedence over the shipped catalogue."""
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
            content = deepcopy(parsed(text))
        except OSError as error:
            raise CatalogueError(f"{path}: an unreadable file ({error.strerror})") from error
        except RecursionError:
            raise CatalogueError(f"{path}: nested without end, accepted: a few levels") from None
        # PyYAML's constructors raise other errors for values that they cannot read ("!!int x", year
        # 0).
        except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise CatalogueError(not_yaml(path, error)) from error
        if not isinstance(content, Mapping):
            found = "an empty file" if content is None else shown(content)
            raise CatalogueError(f"{path}: found {found}, accepted: a mapping")
        values = dict(content)
        kind = values.pop("kind", None)
        if kind not in KINDS:
            raise _wrong(path, f"kind: found {shown(kind)}, accepted: {', '.join(KINDS)}")
        sources, unverified = values.pop("sources", {}), values.pop("unverified", [])
        if not isinstance(sources, Mapping):
            accepted = "a mapping of figures' paths to where they come from"
            raise _wrong(path, f"sources: found {shown(sources)}, accepted: {accepted}")
        if not isinstance(unverified, list):
            accepted = "a list of figures' paths"
            raise _wrong(path, f"unverified: found {shown(unverified)}, accepted: {accepted}")
        spread, calibrated = values.pop("uncertainty", {}), values.pop("calibrated", None)
        values, beside = _guarded(path, lambda: without_intervals(values))
        known = dict(_leaves(values))
        _refuse_unknown_keys(path, kind, values)
        for key, figures in (("sources", sources), ("unverified", unverified)):
            for figure in figures:
                if not isinstance(figure, str) or figure not in known:
                    near = suggestion(figure, known)
                    raise _wrong(path, f"{key}: found {figure}, but the file has no such key{near}")
        uncertainty = _guarded(path, lambda: read_uncertainty(spread, known, beside))
        _refuse_intervals(path, kind, values, uncertainty)
        return Profile(
            name,
            about(text),
            kind,
            path,
            values,
            sources,
            tuple(unverified),
            uncertainty,
            None if calibrated is None else _guarded(path, lambda: read_calibrated(calibrated)),
        )


def shipped_folder() -> Path:
    """The catalogue in an installed package, or beside the package in a checkout."""
    package = Path(simfl.system.__file__).parents[1]
    installed = package / "_data" / "devices"
    return installed if installed.is_dir() else package.parent / "devices"


def _refuse_unknown_keys(path: Path, kind: Kind, values: Mapping[str, Any]) -> None:
    """Refuse keys unknown to all machines, links and regions, and to processors and links of simfl.

    This comes first, since other errors in a file may result from a misspelt key.
    """
    known = _KEYS[kind]
    for key in values:
        if key not in known:
            raise _wrong(path, f"{key}: unknown key{suggestion(key, [*known, *_OF_A_FILE])}")
    for section, base in _SECTIONS.items():
        cls = _class_of(values, section, base)
        own = field_names(cls) if cls else []
        for key in values[section] if cls else ():
            if key not in ("name", *own):
                raise _wrong(path, f"{section}.{key}: unknown key{suggestion(key, own)}")


def _class_of(values: Mapping[str, Any], section: str, base: type[Part]) -> type[Part] | None:
    """The class of simfl's processor or link that a profile names."""
    part = values.get(section)
    name = part.get("name") if isinstance(part, Mapping) else None
    return _parts(base).get(name) if isinstance(name, str) else None


def _refuse_intervals(
    path: Path, kind: Kind, values: Mapping[str, Any], uncertainty: Uncertainty
) -> None:
    """Refuse intervals with invalid draws: below 0, or between integers.

    Draws of shares are limited to 1, and lognormal figures are positive.
    """
    for figure, interval in uncertainty.intervals.items():
        if figure == SECONDS:
            continue
        section, _, below = figure.partition(".")
        base = _SECTIONS.get(section)
        cls = _class_of(values, section, base) if base else _MACHINES.get(kind)
        value = _leaf(values, figure)
        trial = interval.low if interval.low < 0 else _between(interval, value)
        if cls is None or not (interval.low < 0 or isinstance(value, int)):
            continue
        try:
            check(cls, (below if base else figure).split("."), trial)
        except FieldError as error:
            refused = f"found {trial:g} in its interval, {str(error).partition(', ')[2]}"
            raise _wrong(path, f"{figure}: {refused}") from error


def _between(interval: Interval, value: float) -> float:
    """A non-integer value between a figure and an end of its interval."""
    end = interval.low if interval.low < value else interval.high
    return value + (end - value) / math.pi


def _leaf(values: Mapping[str, Any], path: str) -> Any:
    for step in path.split("."):
        values = values[step]
    return values


_NOT_KEYS = ("name", "sources", "unverified")
"""Fields of a machine or region that are not keys of its file."""
_KEYS: Mapping[Kind, Sequence[str]] = {
    "device": [name for name in field_names(Device) if name not in _NOT_KEYS],
    "server": [name for name in field_names(Server) if name not in _NOT_KEYS],
    "link": ["link"],
    "region": [name for name in field_names(Region) if name not in _NOT_KEYS],
}
_OF_A_FILE = ("kind", "sources", "unverified", "uncertainty", "calibrated")
_SECTIONS: Mapping[str, Any] = {"processor": Processor, "link": Link}
_MACHINES: Mapping[Kind, type] = {"device": Device, "server": Server, "region": Region}


def _parts(base: type[Part]) -> dict[str, type[Part]]:
    """Concrete subclasses of `base` in this package's modules, by part name.

    All modules are searched, so that a new kind of processor or link needs only a new file.
    """
    return {
        vars(cls).get("name") or _snake_case(cls.__name__): cls
        for cls in _own_classes()
        if issubclass(cls, base)
    }


@cache
def _own_classes() -> Sequence[type]:
    """The concrete classes defined in this package's modules."""
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


def _guarded(path: Path, make: Callable[[], Made], above: str = "") -> Made:
    """`make()`, whose errors get the file, the line and the key (under `above`)."""
    try:
        return make()
    except MissingCost as missing:
        raise missing.of(placed(path, above.rstrip(".: "))) from missing
    except ValueError as error:
        raise _wrong(path, f"{above}{error}") from error


def _wrong(path: Path, message: str) -> CatalogueError:
    """The error for a profile; `message` begins with the key's path."""
    return CatalogueError(placed(path, message))


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
