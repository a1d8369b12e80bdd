"""FedCure's table and figures come from one command each, and judge the paper's claims."""

from __future__ import annotations

from pathlib import Path

import fedcure
import pandas as pd
import pytest

from paper import Scale, Study
from paper.claims import metric, read_claims

PICTURES = {
    "table1": [],
    "fig2": ["fig2_fedcure"],
    "fig3": ["fig3"],
    "fig4a": ["fig4a"],
    "fig4b": ["fig4b"],
    "fig5": ["fig5_fedcure", "fig5_rh"],
    "fig6": ["fig6"],
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all exhibits keep their runs, which they share."""
    return tmp_path_factory.mktemp("fedcure")


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than even the smallest scale has: what is shown does not depend on how many."""
    (ten,) = fedcure.REDUCED["smoke"].values()
    monkeypatch.setitem(fedcure.REDUCED, "smoke", {"digits": (*ten[:-1], "stop.versions=5")})


@pytest.mark.grid(4)
@pytest.mark.parametrize("exhibit", fedcure.PAPER.exhibits)
def test_an_exhibit_is_shown(exhibit: str, out: Path) -> None:
    """Its values, its figures, and a figure for each of its claims."""
    verdicts = fedcure.main(fedcure.PAPER, [exhibit, "--scale", "smoke", "--out", str(out)])

    claims = [one for one in read_claims(fedcure.PAPER.claims) if one["figure"] == exhibit]
    assert set(verdicts["claim"]) == {one["id"] for one in claims}
    values = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    for one in claims:
        assert len(metric(values, one["metric"])) == 1, one["id"]
    for name in PICTURES[exhibit]:
        picture = out / "smoke" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
    hard = verdicts[verdicts["claim"].isin([one["id"] for one in claims if one["kind"] == "hard"])]
    if exhibit in ("fig2", "fig5"):
        assert (hard["verdict"] == "HOLDS").all()


def test_the_methods_differ_in_association_and_scheduling_alone() -> None:
    """The paper's own table of baselines: everything else is FedCure's."""
    for overrides in fedcure.METHODS.values():
        for one in overrides:
            assert one.partition("=")[0] in ("decisions.association", "decisions.scheduling")


def test_every_claim_belongs_to_an_exhibit() -> None:
    """None would be forgotten silently."""
    assert {one["figure"] for one in read_claims(fedcure.PAPER.claims)} == set(
        fedcure.PAPER.exhibits
    )


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("data", ["mnist", "cifar10_subset", *fedcure.SCALES["paper"].data[1:]])
def test_the_papers_size_runs(data: str, tmp_path: Path) -> None:
    """One version of every scenario whose data are at hand."""
    study = Study(Scale("paper", 1, (data,)), tmp_path, 1, (data,))

    trials = study.run([fedcure.experiment(study, data, "fedcure", ("stop.versions=1",))])

    if data in study.skipped:
        pytest.skip(study.skipped[data])
    (clients,) = (trial.run.clients for trial in trials)
    assert len(clients) == 50
    assert trials[0].run.manifest["counts"]["versions"] == 1
