"""Numbers with a unit, for people."""

from __future__ import annotations

_PREFIXES = ("", "k", "M", "G", "T")


def quantity(value: float, unit: str) -> str:
    """A number with a decimal prefix: 12345 J -> 12.3 kJ."""
    for prefix in _PREFIXES:
        if abs(value) < 1000 or prefix == _PREFIXES[-1]:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    raise AssertionError
