"""The accelerators' rates by kind of work are what the published times give."""

from __future__ import annotations

from pathlib import Path

import accelerator_rates
import numpy as np
import pytest
from kinds_of_work import DOCS, markdown, profile_of

from validated.families import TERMS, Table

NAMES = [term.name for term in TERMS]


def test_planted_rates_are_found() -> None:
    """In addition to linear layers, which have the profile's single rate."""
    processor = profile_of("jetson_nano").processor
    one_rate = processor.flops_per_s * processor.efficiency
    amounts = np.zeros((3, len(TERMS)))
    amounts[:, NAMES.index("convolution")] = [5e12, 1e12, 3e12]
    amounts[:, NAMES.index("depthwise")] = [0.0, 2e10, 1e10]
    amounts[:, NAMES.index("dense")] = [1e12, 0.0, 2e12]
    planted = {"convolution": 2e11, "depthwise": 4e9}
    seconds = amounts[:, NAMES.index("dense")] / one_rate + sum(
        amounts[:, NAMES.index(kind)] / rate for kind, rate in planted.items()
    )

    found = accelerator_rates.rates(Table(["jetson_nano"] * 3, ["a", "b", "c"], amounts, seconds))

    assert found == pytest.approx(planted, rel=1e-6)


def test_the_shipped_profiles_and_the_table_are_what_the_script_finds() -> None:
    """Four digits of each figure; nothing here needs data of others."""
    found, table = accelerator_rates.accelerators()

    for device, rates in found.items():
        shipped = profile_of(device).processor.rates
        for kind, rate in rates.items():
            assert getattr(shipped, kind) == pytest.approx(rate, rel=1e-3), (device, kind)
    block = f"<!-- kinds {accelerator_rates.SECTION} -->\n{markdown(table)}\n"
    assert block in Path(DOCS).read_text(encoding="utf-8")
