"""Checked construction from mappings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pytest

from simfl.system.fields import FieldError, build


@dataclass(frozen=True)
class Mode:
    """What a part holds several of."""

    clock_hz: Annotated[float, "> 0"]

    def __post_init__(self) -> None:
        if self.clock_hz == 13.0:
            raise ValueError("clock_hz: unlucky")


@dataclass(frozen=True)
class Part:
    """One field of each kind."""

    name: ClassVar[str] = "part"

    power_w: Annotated[float, ">= 0", "while busy"]
    cores: Annotated[int, ">= 1"] = 1
    share: Annotated[float | None, "> 0", "<= 1"] = None
    levels: tuple[float, ...] = ()
    table: tuple[tuple[float, float], ...] | None = None
    label: str = ""
    fast: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, Mode] = field(default_factory=dict)


def test_nested_classes() -> None:
    """A mapping of names to a class's keys becomes a mapping of names to its instances."""
    part = build(Part, {"power_w": 2, "modes": {"slow": {"clock_hz": 1}}})

    assert part.modes == {"slow": Mode(1.0)}


def test_values_are_converted() -> None:
    """Integers become floats, lists become tuples; missing keys get their defaults."""
    part = build(Part, {"power_w": 2, "levels": [1, 2.5], "table": [[1, 2]], "notes": {"a": "b"}})

    assert part == Part(2.0, levels=(1.0, 2.5), table=((1.0, 2.0),), notes={"a": "b"})
    assert isinstance(part.power_w, float)
    assert isinstance(part.levels[0], float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power_w": "2"}, "power_w: found '2', accepted: a number >= 0 (while busy)"),
        ({"power_w": -1}, "power_w: found -1, accepted: a number >= 0 (while busy)"),
        ({"power_w": float("nan")}, "power_w: found nan"),
        ({"power_w": float("inf")}, "power_w: found inf"),
        ({"power_w": 1e300}, "power_w: found 1e+300, accepted: a number of at most 1e+30"),
        ({"power_w": 10**400}, "power_w: found an integer of 1329 bits, accepted: at most"),
        ({"levels": [1, 5e-324]}, "levels: found 4.94066e-324, accepted: 0, or a number of"),
        ({"modes": {"slow": {"clock_hz": 1e20}}}, "modes.slow.clock_hz: found 1e+20, accepted"),
        ({"power_w": True}, "power_w: found True"),
        ({"power_w": None}, "power_w: found None"),
        ({"cores": 2.0}, "cores: found 2.0, accepted: an integer >= 1"),
        ({"cores": 0}, "cores: found 0"),
        ({"cores": True}, "cores: found True"),
        ({"share": 0}, "share: found 0, accepted: a number > 0 and <= 1 or null"),
        ({"share": 1.5}, "share: found 1.5"),
        ({"levels": 3}, "levels: found 3, accepted: a list, each a number"),
        ({"levels": [float("nan")]}, "levels: found [nan]"),
        ({"levels": [1, "2"]}, "levels: found [1, '2']"),
        (
            {"table": [[1, 2, 3]]},
            "table: found [[1, 2, 3]], accepted: a list, each a list of 2 (a number, a number)",
        ),
        ({"label": 3}, "label: found 3, accepted: text"),
        ({"fast": 1}, "fast: found 1, accepted: true or false"),
        ({"notes": []}, "notes: found []"),
        ({"notes": {"a": 1}}, "notes.a: found 1, accepted: text"),
        ({"modes": {"slow": 1}}, "modes.slow: found 1, accepted: a section with the keys clock_hz"),
        ({"modes": {"slow": {}}}, "modes.slow.clock_hz: missing, accepted: a number > 0"),
        ({"modes": {"slow": {"clock_hz": 0}}}, "modes.slow.clock_hz: found 0"),
        ({"modes": {"slow": {"clock": 1}}}, "modes.slow.clock: unknown key, did you mean"),
        ({"modes": {"slow": {"clock_hz": 13}}}, "modes.slow.clock_hz: unlucky"),
        ({"core": 2}, "core: unknown key, did you mean 'cores'?"),
        ({"name": "part"}, "name: unknown key"),
    ],
)
def test_wrong_values(changes: dict[str, Any], message: str) -> None:
    """A wrong value or an unknown key is refused with key, value and what is accepted."""
    with pytest.raises(FieldError) as caught:
        build(Part, {"power_w": 1.0, **changes})

    assert message in str(caught.value)


def test_missing_key() -> None:
    """A field without default must be given."""
    with pytest.raises(FieldError, match=r"^power_w: missing, accepted: a number >= 0"):
        build(Part, {})
