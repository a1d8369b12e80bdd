"""A scenario: the YAML file that describes one simulation, checked and frozen.

This package knows only the frame. The registry checks the parameters of named parts (`Part`) with
the fields of the named class.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, TypeAdapter

from simfl.common.html import html_of, titled
from simfl.scenario.classes import plain_content
from simfl.scenario.plugins import is_import_path, plugin_file
from simfl.scenario.sections import (
    AlgorithmSection,
    AnyPart,
    DataSection,
    Decisions,
    Evaluate,
    Log,
    Part,
    PopulationSection,
    Section,
    Stop,
    from_name,
)
from simfl.scenario.shipped import scenario_path
from simfl.scenario.validation.keys import canonical
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.source import KeyPath, Source, read_source, remove
from simfl.scenario.yaml_source.text import Key, dump

Keys = tuple[Key, ...]


class Scenario(Section):
    """One simulation, checked and frozen; made by `from_yaml` or `from_mapping`."""

    name: Annotated[str, Field(strict=True, min_length=1)] = "scenario"
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    dtype: Literal["float32", "float64"] = "float32"
    precision: Annotated[
        Literal["float32", "tf32", "bfloat16"],
        Field(
            description="precision of products and convolutions in float32 runs; others need a GPU"
        ),
    ] = "float32"
    data: DataSection
    model: AnyPart
    population: Annotated[PopulationSection, BeforeValidator(from_name)]
    algorithm: Annotated[AlgorithmSection, BeforeValidator(from_name)]
    protocol: AnyPart
    decisions: Decisions = Field(default_factory=Decisions)
    stop: Stop
    evaluate: Evaluate = Field(default_factory=Evaluate)
    log: Log = Field(default_factory=Log)

    _source: Source = PrivateAttr()
    _left_out: Collection[Keys] = PrivateAttr(default=())
    _contents: dict[Keys, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def from_yaml(
        cls, path: Path | str, overrides: Sequence[str] = (), seed: int | None = None
    ) -> Scenario:
        """The scenario in a YAML file, after `KEY=VALUE` overrides and with another seed.

        Raises ScenarioError, whose text names file, line and key. A scenario without a name is
        named after its file.
        """
        source = read_source(path)
        if "scenario" in source.content and "data" not in source.content:
            message = f"this is a study; `simfl study {path}` runs it"
            raise KeyPath(source, ("scenario",)).error("a study", "a scenario", message)
        source = source.with_overrides(overrides)
        if seed is not None:
            source = source.with_value("seed", seed, "--seed")
        if "name" not in source.content:
            source = source.with_value("name", Path(path).stem, source.file)
        return cls.from_source(source)

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], base_dir: Path | str = ".") -> Scenario:
        """The scenario in a mapping; files of import paths are relative to `base_dir`.

        Its default name is "scenario". A part may also be given as a class. A class defined in a
        notebook or a script is written to a file in `runs/parts` of the working folder, unless that
        exists already.
        """
        folder = Path(base_dir).absolute()
        named = {"name": "scenario", **plain_content(content, folder)}
        return cls.from_source(Source("scenario", folder, named))

    @classmethod
    def of(cls, given: Scenario | Mapping[str, Any] | Path | str) -> Scenario:
        """The scenario from a mapping, a YAML file, or the name of a shipped one."""
        if isinstance(given, Scenario):
            return given
        if isinstance(given, Mapping):
            return cls.from_mapping(given)
        return cls.from_yaml(scenario_path(given))

    @classmethod
    def from_source(cls, source: Source) -> Scenario:
        """The scenario in a source's content; raises ScenarioError."""
        scenario = validate(TypeAdapter(cls), source.content, KeyPath(source))
        scenario._source = source
        return scenario

    def with_overrides(self, overrides: Mapping[str, Any] | Sequence[str]) -> Scenario:
        """This scenario with other values: {"stop.versions": 5}, or KEY=VALUE as for `--set`.

        A value may be a class, as in `from_mapping`.
        """
        source = self._source
        if not isinstance(overrides, Mapping):
            return self.from_source(source.with_overrides(overrides))
        for key, value in overrides.items():
            source = source.with_value(key, plain_content(value, self.base_dir), "with_overrides")
        return self.from_source(source)

    def _repr_html_(self) -> str:
        """What a notebook shows: what was written, without defaults."""
        return titled(f"scenario {self.name}", html_of(self._source.content))

    def holds(self, keys: Keys) -> bool:
        """Whether the given content has the key, as opposed to a filled-in default."""
        return self._source.holds(keys)

    def is_null(self, keys: Keys) -> bool:
        """Whether the given content has null there."""
        return self._source.is_null(keys)

    def without(self, paths: Collection[Keys]) -> Scenario:
        """This scenario with defaults for the keys at these paths."""
        return self.from_source(self._source.without(paths))

    def as_given(self) -> dict[str, Any]:
        """The given content, without defaults; own files with absolute paths."""
        content = copy.deepcopy(self._source.content)
        for keys, (_, part) in self.parts().items():
            file = plugin_file(part.name, self.base_dir) if is_import_path(part.name) else None
            if file is not None and self.holds(keys):
                name = f"{file.absolute()}:{part.name.rpartition(':')[2]}"
                *above, last = (*keys, "name") if self.holds((*keys, "name")) else keys
                section: Any = content
                for step in above:
                    section = section[step]
                section[last] = name
        return content

    @property
    def base_dir(self) -> Path:
        """The folder for relative files of import paths: the scenario file's."""
        return self._source.base_dir

    def below(self, data_root: Path | None) -> Scenario:
        """This scenario with its data below a folder given by an option; None: unchanged."""
        if data_root is None:
            return self
        return self.from_source(replace(self._source, data_root=data_root))

    @property
    def data_root(self) -> Path | None:
        """The folder of the data; None if not set."""
        return self._source.root

    def where(self, *keys: Key) -> KeyPath:
        """The place `keys` of this scenario, for errors that name file, line and key."""
        return KeyPath(self._source, keys)

    def parts(self) -> dict[Keys, tuple[str, Part]]:
        """Every part by its key path, with its kind: what the registry resolves."""
        decisions: dict[Keys, tuple[str, Part]] = {
            ("decisions", kind): (kind, getattr(self.decisions, kind))
            for kind in Decisions.model_fields
        }
        return {
            ("data",): ("datasets", self.data.part),
            ("data", "partition"): ("partitions", self.data.partition),
            ("model",): ("models", self.model),
            ("population",): ("populations", self.population.part),
            ("population", "availability"): ("availability", self.population.availability),
            ("population", "uplink_codec"): ("codecs", self.population.uplink_codec),
            ("population", "downlink_codec"): ("codecs", self.population.downlink_codec),
            ("population", "access_sharing"): ("sharing", self.population.access_sharing),
            ("population", "backhaul_sharing"): ("sharing", self.population.backhaul_sharing),
            **self.population.parts_of_groups(),
            ("algorithm",): ("algorithms", self.algorithm.part),
            ("protocol",): ("protocols", self.protocol),
            **decisions,
            **{
                ("evaluate", "measures", index): ("measures", part)
                for index, part in enumerate(self.evaluate.measures)
            },
        }

    def plugin_files(self) -> list[Path]:
        """The user's own files that contain parts of this scenario."""
        named = [part.name for _, part in self.parts().values() if is_import_path(part.name)]
        files = [plugin_file(name, self.base_dir) for name in named]
        return [file for file in files if file is not None]

    def with_parts(
        self,
        parts: Mapping[Keys, Mapping[str, Any]],
        leave_out: Collection[Keys] = (),
        contents: Mapping[Keys, str] | None = None,
    ) -> Scenario:
        """This scenario with the keys of its parts replaced, for example with defaults filled in.

        Values at the paths of `leave_out` are neither written nor part of the digest. `contents`
        has the content of files, by the path of the key that names each: the content is part of the
        digest, the file's place is not.
        """
        content = self.as_mapping()
        for (*above, last), keys in parts.items():
            section: Any = content
            for step in above:
                section = section[step]
            section[last] = {**section[last], **keys}
        source = replace(self._source, content=content)
        resolved = self.from_source(source.without(leave_out))
        resolved._left_out = leave_out
        resolved._contents = {
            keys: found
            for keys, found in (contents or {}).items()
            if not any(keys[: len(path)] == path for path in leave_out)
        }
        return resolved

    def as_mapping(self) -> dict[str, Any]:
        """The whole content as plain values, defaults of the frame included."""
        content = self.model_dump(mode="json")
        remove(content, self._left_out)
        return content

    def to_yaml(self) -> str:
        """The whole content as YAML; it reads back, from any folder, to the same scenario."""
        content = self.as_mapping()
        self._rename_files(content, lambda file: str(file.absolute()))
        return dump(content)

    def portable(self) -> dict[str, Any]:
        """The content, with files by their content, not their place.

        These are parts in the user's files and, once parts are resolved, their data files.
        """
        content = self.as_mapping()
        self._rename_files(content, _content_hash)
        for (*above, last), found in self._contents.items():
            section: Any = content
            for step in above:
                section = section[step]
            section[last] = found
        return content

    @property
    def digest(self) -> str:
        """SHA-256 of the content except the scenario's name: equal for equal simulations.

        Numbers count by value (1 is 1.0), and a part in a user's file by the file's content,
        regardless of its place.
        """
        content = self.portable()
        del content["name"]
        text = json.dumps(canonical(content), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _rename_files(self, content: dict[str, Any], rename: Callable[[Path], str]) -> None:
        for keys, (_, part) in self.parts().items():
            file = plugin_file(part.name, self.base_dir) if is_import_path(part.name) else None
            if file is not None:
                section: Any = content
                for step in keys:
                    section = section[step]
                section["name"] = f"{rename(file)}:{part.name.rpartition(':')[2]}"


def _content_hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else file.name


def frame_schema() -> dict[str, Any]:
    """JSON Schema of the frame, in which a part may have any parameters."""
    return Scenario.model_json_schema()
