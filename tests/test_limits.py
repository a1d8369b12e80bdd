"""How large numbers may be, by the units in their keys' names."""

from __future__ import annotations

import re

import pytest

from simfl.common.limits import MOST_WHOLE, refusal


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean_s", 1e10),
        ("mean_s", 0.0),
        ("processor.flops_per_s", 1e18),
        ("kappa", 1e-28),
        ("frequency_max_hz", (1e9, 3e9)),
        ("seed", MOST_WHOLE),
        ("about", "1e300"),
        ("flag", True),
    ],
)
def test_what_somebody_may_mean_is_accepted(key, value):
    """A century, the flops of a data centre and a chip's kappa are."""
    assert refusal(key, value) is None


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("mean_s", 1e300, "found 1e\\+300, accepted: a number of at most 1e\\+10"),
        ("population.rtt_s", -1e11, "at most 1e\\+10"),
        ("flops_per_s", 1e31, "at most 1e\\+30"),
        ("access_hz", [1e9, 1e300], "at most 1e\\+15"),
        ("noise_figure_db", 1e4, "at most 1000"),
        ("kappa", 5e-324, "at least 1e-60"),
        ("seed", 10**400, "an integer of 1329 bits, accepted: at most 9223372036854775807"),
    ],
)
def test_what_makes_other_numbers_infinite_is_refused(key, value, words):
    """So that products and powers of accepted values are finite."""
    assert re.search(words, refusal(key, value) or "accepted")
