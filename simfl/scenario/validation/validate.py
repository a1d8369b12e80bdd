"""Turns pydantic's validation errors into one scenario error at its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from simfl.common.suggestion import nearest
from simfl.scenario.accepted import accepted_at, keys_at
from simfl.scenario.validation.keys import REQUIRED, json_schema
from simfl.scenario.yaml_source.error import ScenarioError, show
from simfl.scenario.yaml_source.source import KeyPath
from simfl.scenario.yaml_source.text import Key

Value = TypeVar("Value")


def validate(
    checker: TypeAdapter[Value], value: Any, where: KeyPath, beside: Collection[str] = ()
) -> Value:
    """The checked `value`; raises ScenarioError, placed at `where`, for its first error.

    `beside` names keys that are allowed in the same section although `checker` does not know them.
    """
    folders = {"base_dir": where.source.base_dir, "data_root": where.source.root}
    try:
        return checker.validate_python(value, context=folders)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    # A misspelt key explains a missing one, so it is reported first.
    problems.sort(key=lambda one: one["type"] != "extra_forbidden")
    cause = problems[0].get("ctx", {}).get("error")
    raise _scenario_error(problems[0], json_schema(checker), value, where, beside) from cause


def _scenario_error(
    problem: ErrorDetails,
    schema: dict[str, Any],
    value: Any,
    where: KeyPath,
    beside: Collection[str],
) -> ScenarioError:
    path, found = _locate(problem, value)
    place = where.child(*path)
    if problem["type"] == "extra_forbidden":
        name = str(path[-1])
        known = sorted({*keys_at(schema, path[:-1]), *(beside if len(path) == 1 else ())})
        guess = _elsewhere(name, schema, path[:-1], known) or nearest(name, known) or ";"
        accepted = ", ".join(known) or "no keys"
        message = f"unknown key {name!r}{guess} accepted: {accepted}"
        return place.error(f"unknown key {name!r}", accepted, message)
    if problem["type"] == "missing":
        return place.error("nothing", accepted_at(schema, path) or "any value (it has no type)")
    if problem["type"] in ("value_error", "assertion_error"):
        return _check_error(problem["msg"].partition(", ")[2], schema, path, found, where)
    accepted = accepted_at(schema, path) or problem["msg"]
    if problem["type"] == "finite_number":
        accepted = f"{accepted}, finite"
    if isinstance(found, str) and found and "name" in keys_at(schema, path):
        # A bare name, for a part that has other keys beside its name.
        guess = f"did you mean {{name: {found}}}?"
        return place.error(
            show(found), accepted, f"found {show(found)}, {guess} accepted: {accepted}"
        )
    return place.error(show(found), accepted)


SYNONYMS = {"lr": "learning_rate", "batch": "batch_size", "bs": "batch_size", "epoch": "epochs"}
"""Names of keys in other tools, with their names here."""
OF_POPULATIONS = ("start_time",)
"""Keys of populations that users often put at the top level."""


def _elsewhere(name: str, schema: dict[str, Any], path: Sequence[Key], known: Sequence[str]) -> str:
    """ ", did you mean 'local.learning_rate'?" for a key that a section within this one has."""
    if name in OF_POPULATIONS and not path and "population" in known:
        return f", did you mean 'population.{name}'?"
    meant = SYNONYMS.get(name, name)
    if meant in known:
        return f", did you mean {meant!r}?"
    inner = [key for key in known if meant in keys_at(schema, [*path, key])]
    return f", did you mean '{inner[0]}.{meant}'?" if inner else ""


def _check_error(
    reason: str, schema: dict[str, Any], path: tuple[Key, ...], found: Any, where: KeyPath
) -> ScenarioError:
    """The error of a class's own check, placed at the field that its message names first."""
    first = reason.split(maxsplit=1)[0].strip(",.:;'") if reason else ""
    shown = show(found)
    steps = tuple(first.split("."))
    upper = [(*path, *steps[:depth]) for depth in range(len(steps))]
    if isinstance(found, Mapping) and all(
        step in keys_at(schema, above) for step, above in zip(steps, upper, strict=True)
    ):
        for step in steps:
            found = found.get(step, REQUIRED) if isinstance(found, Mapping) else REQUIRED
        shown = "nothing" if found is REQUIRED else show(found)
        path = (*path, *steps)
        reason = reason.removeprefix(f"{first}: ")
    message = reason if reason.startswith("found ") else f"found {shown}, but {reason}"
    return where.child(*path).error(shown, reason, message)


def _locate(problem: ErrorDetails, value: Any) -> tuple[tuple[Key, ...], Any]:
    """The key path of a problem and the value there.

    Pydantic also puts the names of a union's branches and of validators into its path; they are not
    keys of the value and are left out.
    """
    path: list[Key] = []
    steps = problem["loc"]
    for number, step in enumerate(steps):
        is_key = isinstance(value, Mapping) and step in value
        is_index = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
        if is_key or is_index:
            value = value[step]
            path.append(step)
        elif problem["type"] == "missing" and number == len(steps) - 1:
            path.append(step)
    return tuple(path), value
