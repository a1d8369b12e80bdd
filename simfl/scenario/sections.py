"""The sections of a scenario: all keys except those of its named parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from simfl.common.html import html_of

PART_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ],
    "description": "a part's name or import path, alone or with its parameters",
}


class _Shown(BaseModel):
    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_of(self.model_dump(mode="json"))


class Section(_Shown):
    """A section of the frame: frozen, without other keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class _Named(_Shown):
    """A section with the name of a part, whose other keys belong to that part."""

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


def from_name(value: Any) -> Any:
    """Converts a part's bare name to a section with that name."""
    return {"name": value} if isinstance(value, str) else value


AnyPart = Annotated[Part, BeforeValidator(from_name), WithJsonSchema(PART_SCHEMA)]
Count = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Accuracy = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


OF_GROUPS = ("availability", "allocation")
"""Kinds of parts that a population's group may set for itself."""


def _with_named_parts(group: Any) -> Any:
    if not isinstance(group, dict):
        return group
    return {key: from_name(one) if key in OF_GROUPS else one for key, one in group.items()}


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _part(name: str) -> Callable[[], Part]:
    return lambda: Part(name=name)


class GrowingNoise(Section):
    """Noise that grows with the client's number: of client i of N, counted from 1, `largest` i/N.

    Source: noise-based feature imbalance of NIID-Bench (Li et al., ICDE 2022, arXiv 2102.02079).
    """

    largest: NotNegative


class DataSection(_Named):
    """The data set, with its own parameters beside these keys, and its partition."""

    partition: AnyPart = Field(default_factory=_part("iid"))
    validation_share: Share = Field(
        default=0.0, description="share of the training data that the server keeps, stratified"
    )
    client_test_share: Share = Field(
        default=0.0,
        description="share of each client's examples that it tests with and does not train with, at"
        " least one of two; 0: figures at clients are of their training examples",
    )
    noise_variance: tuple[NotNegative, ...] | GrowingNoise = Field(
        default=(),
        description="variance of Gaussian noise on inputs, one value per client; {largest: v}: v i"
        " / N for client i of N, as in NIID-Bench; empty: no noise",
    )
    root: Annotated[str, Field(strict=True)] | None = Field(
        default=None, description="folder of the data; null: --data-root or SIMFL_DATA"
    )
    augmentation: tuple[AnyPart, ...] = Field(
        default=(),
        description="transforms of torchvision.transforms.v2, each with its keyword arguments",
    )


class PopulationSection(_Named):
    """The clients and servers; the population's own parameters are beside these keys."""

    availability: AnyPart = Field(default_factory=_part("always"))
    uplink_codec: AnyPart = Field(default_factory=_part("float32"))
    downlink_codec: AnyPart = Field(default_factory=_part("float32"))
    access_sharing: AnyPart = Field(default_factory=_part("dedicated"))
    backhaul_sharing: AnyPart = Field(default_factory=_part("dedicated"))

    @model_validator(mode="before")
    @classmethod
    def _named_parts(cls, values: Any) -> Any:
        """Parts of groups that are given by their bare names, as sections."""
        groups = values.get("groups") if isinstance(values, dict) else None
        if not isinstance(groups, list):
            return values
        return {**values, "groups": [_with_named_parts(one) for one in groups]}

    def parts_of_groups(self) -> dict[tuple[str | int, ...], tuple[str, Part]]:
        """The parts set by groups of clients, by key path, each with its kind.

        Other values are skipped; the population reports their errors.
        """
        groups = self.parameters.get("groups")
        return {
            ("population", "groups", place, kind): (kind, Part.model_validate(group[kind]))
            for place, group in enumerate(groups if isinstance(groups, list) else ())
            for kind in OF_GROUPS
            if isinstance(group, dict) and _is_part(group.get(kind))
        }


class Contributions(Section):
    """Each client's test accuracy without collaboration, needed by some algorithms and measures.

    It is computed by a run of the algorithm `standalone` with the same data, model, seed and
    `local`, before the run itself, with separate seconds and joules; or it is given.
    """

    rounds: Count | None = Field(
        default=None,
        description="rounds of standalone training; null: stop.versions, so that a longer run has"
        " other contributions, and differs from its first version on",
    )
    accuracy: tuple[Accuracy, ...] | None = Field(
        default=None, description="the accuracies, one per client, instead of training"
    )


class AlgorithmSection(_Named):
    """The algorithm, with its own parameters beside these keys."""

    contributions: Contributions | None = Field(
        default=None, description="the clients' standalone accuracy; null: computed if needed"
    )

    non_finite: Literal["stop", "drop", "reset"] = Field(
        default="stop",
        description="effect of a NaN or infinite update: end the run, drop it, or drop it and clear"
        " the client's memory",
    )


class Decisions(Section):
    """The decision rules: one per kind of decision."""

    selection: AnyPart = Field(default_factory=_part("all"))
    association: AnyPart = Field(default_factory=_part("initial"))
    scheduling: AnyPart = Field(default_factory=_part("round_robin"))
    allocation: AnyPart = Field(default_factory=_part("max"))
    staleness: AnyPart = Field(default_factory=_part("exponential"))
    estimator: AnyPart = Field(default_factory=_part("nig"))


class Plateau(Section):
    """No gain of `minimum_gain` in accuracy during the last `versions` versions."""

    versions: Count = 20
    minimum_gain: NotNegative = 0.001


class Stop(Section):
    """The end of a run: the first criterion that is met; at least one is required.

    `time_s` ends it exactly then, every other one with the first version that meets it.
    """

    versions: Count | None = Field(default=None, description="global versions")
    time_s: Positive | None = Field(default=None, description="simulated seconds")
    energy_j: Positive | None = Field(default=None, description="joules of all machines")
    bytes: Positive | None = Field(default=None, description="delivered bytes, over all links")
    updates: Count | None = Field(
        default=None, description="client updates that servers have merged"
    )
    accuracy: Annotated[float, Field(strict=True, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description="test accuracy, or R^2 of a regression"
    )
    loss: NotNegative | None = Field(default=None, description="test loss")
    plateau: Plateau | None = Field(
        default=None, description="stop when accuracy no longer improves"
    )

    @model_validator(mode="after")
    def _has_a_criterion(self) -> Stop:
        names = list(type(self).model_fields)
        if all(getattr(self, name) is None for name in names):
            raise ValueError(f"a run needs an end: set at least one of {', '.join(names)}")
        return self


class Evaluate(Section):
    """The evaluation of the global model, and optionally on every client's data."""

    every: Count = Field(default=1, description="versions between two evaluations")
    clients: Flag = Field(default=False, description="also evaluate on every client's data")
    measures: tuple[AnyPart, ...] = Field(
        default=(), description="measures of the finished run, kept in its manifest"
    )


class Log(Section):
    """The contents of the event log: every event, or only rounds."""

    level: Literal["full", "rounds"] = "full"
    rows_per_segment: Count = Field(default=100_000, description="rows per file during the run")
