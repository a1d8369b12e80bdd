"""What-if runs share their draws: only what was changed differs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import simfl
from tests.small import small

BASE = small(
    algorithm="none",
    population={
        "clients": 12,
        "compute_noise": 0.3,
        "transfer_noise": 0.2,
        "availability": {"name": "periodic", "period_s": 4.0, "share": 0.7},
        "groups": [
            {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
            {"device": "phone_high_sd865", "link": "cell_macro", "share": 0.5},
        ],
    },
    stop={"versions": 8},
)


def rows(run: simfl.LoadedRun, kind: str) -> pd.DataFrame:
    """Each client's turns in order, with the details of one stage."""
    details = run.details(kind).dropna(subset="client").sort_values(["client", "start_s"])
    return details.assign(turn=details.groupby("client").cumcount()).set_index(["client", "turn"])


@pytest.mark.parametrize("link", ["ethernet_1g", "nb_iot", "cell_umi"])
def test_another_uplink_changes_no_other_draw(tmp_path, link):
    """The same clients compute the same noisy cycles turn by turn, and other links fade the same.

    Where clients take part in other rounds, their n-th turns are compared.
    """
    before = simfl.run(BASE, tmp_path / "before")
    scenario = BASE.with_overrides([f"population.groups.0.link={link}"])
    after = simfl.run(scenario, tmp_path / "after")

    first, second = rows(before, "compute"), rows(after, "compute")
    common = first.index.intersection(second.index)
    assert len(common) >= 24
    np.testing.assert_array_equal(first.loc[common, "cycles"], second.loc[common, "cycles"])
    cell = before.clients.set_index("client")["link"] == "cell_macro"
    for kind in ("download", "upload"):
        first, second = rows(before, kind), rows(after, kind)
        common = first.index.intersection(second.index)
        kept = common[cell[common.get_level_values("client")].to_numpy()]
        assert 8 <= len(kept) < len(common)
        np.testing.assert_allclose(
            first.loc[kept, "duration_s"], second.loc[kept, "duration_s"], rtol=1e-9
        )
        changed = common.difference(kept)
        assert (first.loc[changed, "duration_s"] != second.loc[changed, "duration_s"]).all()
