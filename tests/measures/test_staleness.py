"""Staleness is one figure: the mean over updates, wherever the word stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.measures.staleness_distribution import StalenessDistribution, staleness_distribution
from simfl.runs.runfolder import LoadedRun
from simfl.study.rows import row
from tests.small import SEMI_ASYNCHRONOUS, small

BUFFER, VERSIONS = 3, 16


@pytest.fixture(scope="module")
def buffered(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """FedBuff among fast phones and slow boards."""
    scenario = small(
        protocol={"name": "buffered", "buffer": BUFFER},
        population={"speed_spread": 3.0},
        stop={"versions": VERSIONS},
    )
    return simfl.run(scenario, tmp_path_factory.mktemp("buffered") / "run")


@pytest.fixture(scope="module")
def by_hand(buffered: LoadedRun) -> np.ndarray:
    """(versions, buffer) of each update, from the uploads: the n-th is in buffer n // 3."""
    uploads = buffered.events[buffered.events["kind"] == "upload"].sort_values("seq")
    downloaded = (
        uploads["version"].to_numpy(dtype=int)[: VERSIONS * BUFFER].reshape(VERSIONS, BUFFER)
    )
    return np.arange(VERSIONS)[:, None] - downloaded


def test_rounds_have_the_mean_and_the_oldest(buffered: LoadedRun, by_hand: np.ndarray) -> None:
    """Over the updates in the buffer, which differ."""
    rounds = buffered.rounds

    assert rounds["staleness"].tolist() == by_hand.mean(axis=1).tolist()
    assert rounds["staleness_max"].tolist() == by_hand.max(axis=1).tolist()
    assert rounds["updates"].tolist() == [BUFFER] * VERSIONS
    assert (rounds["staleness_max"] > rounds["staleness"]).any()


def test_the_log_has_the_mean_and_each(buffered: LoadedRun, by_hand: np.ndarray) -> None:
    """Each one's where they differ; otherwise the mean says it."""
    merged = buffered.details("cloud_aggregate")

    assert merged["staleness"].tolist() == by_hand.mean(axis=1).tolist()
    alike = (by_hand == by_hand[:, :1]).all(axis=1)
    assert merged["staleness_each"].isna().tolist() == alike.tolist()
    for each, expected in zip(merged["staleness_each"][~alike], by_hand[~alike], strict=True):
        assert sorted(each) == sorted(expected)


def test_every_mean_is_over_updates(buffered: LoadedRun, by_hand: np.ndarray) -> None:
    """The measure's, a study's and the run's own."""
    figures = StalenessDistribution().compute(buffered)

    assert by_hand.mean() < by_hand.max(axis=1).mean() - 0.4
    assert figures["mean"] == pytest.approx(by_hand.mean())
    assert staleness_distribution(buffered).mean == pytest.approx(by_hand.mean())
    assert row(buffered, {})["staleness"] == pytest.approx(by_hand.mean())
    assert figures["highest"] == by_hand.max()
    assert figures["fresh_share"] == (by_hand == 0).mean()


def test_a_version_of_more_updates_counts_for_more(tmp_path: Path) -> None:
    """Rounds that carry late updates over merge different numbers of them."""
    patience = {"deadline_s": 0.03, "late": "carry_over"}
    run = simfl.run(
        small(protocol={"name": "synchronous", "patience": patience}, stop={"versions": 12}),
        tmp_path / "run",
    )

    rounds, found = run.rounds, staleness_distribution(run)
    assert rounds["updates"].nunique() > 1
    assert (rounds["participants"] <= rounds["updates"]).all()  # a client may be in it twice
    assert found.updates.sum() == rounds["updates"].sum()
    assert found.mean == pytest.approx(run.mean_staleness)
    assert run.mean_staleness != pytest.approx(rounds["staleness"].mean())


def test_a_model_of_an_edge_server_is_one_update(tmp_path: Path) -> None:
    """However many clients are in it; without a log, what the rounds table says is known."""
    run = simfl.run(
        small(protocol=SEMI_ASYNCHRONOUS, log={"level": "rounds"}, stop={"versions": 6}),
        tmp_path / "run",
    )

    figures = StalenessDistribution().compute(run)
    assert run.rounds["updates"].tolist() == [1] * 6
    assert figures["mean"] == run.rounds["staleness"].mean()
    assert np.isnan(figures["fresh_share"])


def test_a_round_lists_everybody_who_is_selected(tmp_path: Path) -> None:
    """Sixty of sixty; of clients in flight, one is dispatched, and the rest is counted."""
    population = {"clients": 60}
    algorithm = {"name": "none", "local": {"steps": 1, "batch_size": 16}}
    stop = {"versions": 1}
    whole = simfl.run(small(population=population, algorithm=algorithm, stop=stop), tmp_path / "a")
    flight = simfl.run(
        small(
            population=population,
            algorithm=algorithm,
            stop=stop,
            protocol={"name": "asynchronous", "concurrency": 2},
        ),
        tmp_path / "b",
    )

    assert whole.details("select")["selected"].iloc[0] == list(range(60))
    first = flight.details("select").iloc[0]
    assert (len(first["selected"]), first["left_out"], first["value"]) == (50, 10, 60)
