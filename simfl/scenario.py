"""A scenario: the YAML file that describes one simulation, checked and frozen.

This file knows the frame only. The parameters of the named parts (`Part`) are checked by the
registry with the fields of the class that the name stands for.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from simfl.plugins import is_import_path, plugin_file
from simfl.validation import canonical, validate
from simfl.yaml_source import Key, KeyPath, Source, dump, read_source

Keys = tuple[Key, ...]

PART_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ],
    "description": "a part's name or import path, alone or with its parameters",
}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class _Named(BaseModel):
    """A section whose keys other than its own belong to the part that it names."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    name: Annotated[str, Field(strict=True, min_length=1, description="a part's name")]

    @property
    def parameters(self) -> dict[str, Any]:
        """The part's own keys, as written."""
        return copy.deepcopy(self.__pydantic_extra__ or {})

    @property
    def part(self) -> Part:
        """The named part alone: its name and its own parameters."""
        return Part.model_validate({"name": self.name, **self.parameters})


class Part(_Named):
    """One exchangeable part: the name of its class and the class's parameters."""


def _from_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


AnyPart = Annotated[Part, BeforeValidator(_from_name), WithJsonSchema(PART_SCHEMA)]
Count = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Accuracy = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


def _part(name: str) -> Callable[[], Part]:
    return lambda: Part(name=name)


class DataSection(_Named):
    """The data set, whose own parameters stand beside these keys, and how it is divided."""

    partition: AnyPart = Field(default_factory=_part("iid"))
    validation_share: Share = Field(
        default=0.0, description="share of the training data that the server keeps, stratified"
    )
    noise_variance: tuple[NotNegative, ...] = Field(
        default=(), description="of Gaussian noise on inputs, one per client; nothing is no noise"
    )
    root: Annotated[str, Field(strict=True)] | None = Field(
        default=None, description="folder of the data; null is --data-root or SIMFL_DATA"
    )
    augmentation: tuple[AnyPart, ...] = Field(
        default=(), description="torchvision.transforms.v2 calls, each with its keyword arguments"
    )


class PopulationSection(_Named):
    """The clients and servers, whose own parameters stand beside these keys."""

    availability: AnyPart = Field(default_factory=_part("always"))
    uplink_codec: AnyPart = Field(default_factory=_part("float32"))
    downlink_codec: AnyPart = Field(default_factory=_part("float32"))
    access_sharing: AnyPart = Field(default_factory=_part("dedicated"))
    backhaul_sharing: AnyPart = Field(default_factory=_part("dedicated"))


class Contributions(_Section):
    """Each client's test accuracy without collaboration, which some algorithms and measures need.

    It is found out by a run of the algorithm `standalone` with the same data, model, seed and
    `local`, before the run itself, with seconds and joules of its own; or it is given.
    """

    rounds: Count | None = Field(
        default=None, description="rounds of standalone training; null is stop.versions"
    )
    accuracy: tuple[Accuracy, ...] | None = Field(
        default=None, description="one per client, instead of training"
    )


class AlgorithmSection(_Named):
    """The algorithm, whose own parameters stand beside these keys."""

    contributions: Contributions | None = Field(
        default=None, description="what clients achieve alone; null: found out where it is needed"
    )

    non_finite: Literal["stop", "drop", "reset"] = Field(
        default="stop",
        description="what a NaN or infinite update does: end the run, be dropped, or be dropped"
        " and have its client forget what it kept",
    )


class Decisions(_Section):
    """Who, with whom, how fast: one policy per kind of decision."""

    selection: AnyPart = Field(default_factory=_part("all"))
    association: AnyPart = Field(default_factory=_part("initial"))
    scheduling: AnyPart = Field(default_factory=_part("round_robin"))
    allocation: AnyPart = Field(default_factory=_part("max"))
    staleness: AnyPart = Field(default_factory=_part("exponential"))
    estimator: AnyPart = Field(default_factory=_part("nig"))


class Plateau(_Section):
    """No gain of `minimum_gain` in accuracy during the last `versions` versions."""

    versions: Count = 20
    minimum_gain: NotNegative = 0.001


class Stop(_Section):
    """When a run ends: at the first criterion that is met; at least one is needed."""

    versions: Count | None = Field(default=None, description="global versions")
    time_s: Positive | None = Field(default=None, description="simulated seconds")
    energy_j: Positive | None = Field(default=None, description="joules of all machines together")
    bytes: Positive | None = Field(default=None, description="bytes sent over all links")
    accuracy: Annotated[float, Field(strict=True, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description="test accuracy, or R^2 of a regression"
    )
    loss: NotNegative | None = Field(default=None, description="test loss")
    plateau: Plateau | None = Field(default=None, description="no more gain in accuracy")

    @model_validator(mode="after")
    def _has_a_criterion(self) -> Stop:
        names = list(type(self).model_fields)
        if all(getattr(self, name) is None for name in names):
            raise ValueError(f"a run needs an end: give at least one of {', '.join(names)}")
        return self


class Evaluate(_Section):
    """How often the global model is evaluated, and whether for every client too."""

    every: Count = Field(default=1, description="versions from one evaluation to the next")
    clients: Flag = Field(default=False, description="evaluate on every client's data too")
    measures: tuple[AnyPart, ...] = Field(
        default=(), description="measures of the finished run, kept in its manifest"
    )


class Log(_Section):
    """What the event log keeps: every event, or rounds only."""

    level: Literal["full", "rounds"] = "full"
    rows_per_segment: Count = Field(
        default=100_000, description="rows per file while the run is going"
    )


class Scenario(_Section):
    """One simulation, checked and frozen; made by `from_yaml` or `from_mapping`."""

    name: Annotated[str, Field(strict=True, min_length=1)] = "scenario"
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    dtype: Literal["float32", "float64"] = "float32"
    data: DataSection
    model: AnyPart
    population: Annotated[PopulationSection, BeforeValidator(_from_name)]
    algorithm: Annotated[AlgorithmSection, BeforeValidator(_from_name)]
    protocol: AnyPart
    decisions: Decisions = Field(default_factory=Decisions)
    stop: Stop
    evaluate: Evaluate = Field(default_factory=Evaluate)
    log: Log = Field(default_factory=Log)

    _source: Source = PrivateAttr()

    @classmethod
    def from_yaml(
        cls, path: Path | str, overrides: Sequence[str] = (), seed: int | None = None
    ) -> Scenario:
        """The scenario in a YAML file, after `KEY=VALUE` overrides and with another seed.

        Raises ScenarioError, whose text names file, line and key. A scenario without a name is
        called after its file.
        """
        source = read_source(path).with_overrides(overrides)
        if seed is not None:
            source = source.with_value("seed", seed, "--seed")
        if "name" not in source.content:
            source = source.with_value("name", Path(path).stem, source.file)
        return cls.from_source(source)

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any], base_dir: Path | str = ".") -> Scenario:
        """The scenario in a mapping; files of import paths are relative to `base_dir`."""
        return cls.from_source(
            Source("scenario", Path(base_dir).absolute(), copy.deepcopy(dict(content)))
        )

    @classmethod
    def from_source(cls, source: Source) -> Scenario:
        """The scenario in a source's content; raises ScenarioError."""
        scenario = validate(TypeAdapter(cls), source.content, KeyPath(source))
        scenario._source = source
        return scenario

    def with_overrides(self, overrides: Sequence[str]) -> Scenario:
        """This scenario after `KEY=VALUE` overrides, as `--set` gives them."""
        return self.from_source(self._source.with_overrides(overrides))

    @property
    def base_dir(self) -> Path:
        """The folder that files of import paths are relative to: the scenario file's."""
        return self._source.base_dir

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
            ("algorithm",): ("algorithms", self.algorithm.part),
            ("protocol",): ("protocols", self.protocol),
            **decisions,
            **{
                ("evaluate", "measures", index): ("measures", part)
                for index, part in enumerate(self.evaluate.measures)
            },
        }

    def plugin_files(self) -> list[Path]:
        """The files of the user's own that parts of this scenario are written in."""
        named = [part.name for _, part in self.parts().values() if is_import_path(part.name)]
        files = [plugin_file(name, self.base_dir) for name in named]
        return [file for file in files if file is not None]

    def with_parts(self, parts: Mapping[Keys, Mapping[str, Any]]) -> Scenario:
        """This scenario with the keys of its parts replaced: their defaults filled in, say."""
        content = self.as_mapping()
        for (*above, last), keys in parts.items():
            section: Any = content
            for step in above:
                section = section[step]
            section[last] = {**section[last], **keys}
        source = Source(
            self._source.file, self.base_dir, content, self._source.lines, self._source.origins
        )
        return self.from_source(source)

    def as_mapping(self) -> dict[str, Any]:
        """The whole content as plain values, defaults of the frame included."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """The whole content as YAML; it reads back, from any folder, to the same scenario."""
        content = self.as_mapping()
        self._rename_files(content, lambda file: str(file.absolute()))
        return dump(content)

    def portable(self) -> dict[str, Any]:
        """The content, with parts in files of the user's by the files' content, not their place."""
        content = self.as_mapping()
        self._rename_files(content, _content_hash)
        return content

    @property
    def digest(self) -> str:
        """SHA-256 of the content but for the scenario's name: equal for equal simulations.

        Numbers count by value (1 is 1.0), and a part in a file of the user's by the file's
        content, wherever it lies.
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
