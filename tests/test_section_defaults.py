"""Keys of a section that is given in part keep the values that they have without the section."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from simfl.assembly import registry
from simfl.scenario.validation.keys import REQUIRED, adapter, parameters, plain
from simfl.system.availability.renewal import PHONES_ABSENT, Renewal


def sections() -> list[Any]:
    """The part, key and default of each section of a shipped part that has a default."""
    return [
        pytest.param(part, one.name, one.default, id=f"{kind}.{name}.{one.name}")
        for kind in registry.KINDS
        for name in registry.names(kind)
        for part in [registry.shipped(kind, name)]
        for one in parameters(part)[0]
        if one.default is not REQUIRED and is_dataclass(one.default)
    ]


def checked(part: type, **keys: Any) -> dict[str, Any]:
    """The keys of a part as they are checked, without the part's other ones."""
    required = tuple(one.name for one in parameters(part)[0] if one.default is REQUIRED)
    found: dict[str, Any] = adapter(part, dict, required).validate_python(keys)
    return found


@pytest.mark.parametrize(("part", "key", "default"), sections())
def test_setting_a_key_to_its_default_changes_nothing(part: type, key: str, default: Any) -> None:
    """Whoever else uses the section's class, with other defaults."""
    replaced_by = getattr(default, "REPLACED_BY", {})
    for field in fields(default):
        value = plain(getattr(default, field.name))
        if value is None and field.name in replaced_by:
            continue  # null stands for "not this one": another one is asked for
        if any(field.name in others for others in replaced_by.values()):
            continue  # see the next test
        assert checked(part, **{key: {field.name: value}})[key] == default, field.name


def test_a_key_that_replaces_another_stands_alone() -> None:
    """A law takes no shape of another law; epochs take no steps' place."""
    assert checked(Renewal, present={"law": "exponential"})["present"].shape == 1.0
    games = registry.shipped("algorithms", "fl_games")
    assert games is not None
    local = checked(games, local={"epochs": 2})["local"]
    assert (local.epochs, local.steps, local.optimizer) == (2, None, "adam")
    only_shape = checked(Renewal, share_beta=[1, 2], absent={"shape": 0.6})["absent"]
    assert (only_shape.mean_s, only_shape.law) == (PHONES_ABSENT.mean_s, "weibull")
