"""The fit: planted figures come back, intervals cover, outliers move nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfl.calibration.held_out import leave_one_out, predictions
from simfl.calibration.machines import SCATTER, SCATTER_SPREAD, TERMS, Base, amounts, prior_of
from simfl.calibration.posterior import UNLIKE, Posterior, posterior
from simfl.calibration.terms import ENDS, Rows
from simfl.common.model_work import FORWARD_KINDS, STEP_KINDS
from simfl.system.cpu import Cpu
from simfl.system.rates import Rates
from tests.calibration.planted import FIGURES, PEAKS, PIS, SECONDS, pi_rows, planted_rows

BASE = Base("sbc", 7e10)


def fitted(rows: Rows) -> Posterior:
    """The fit to rows of one device."""
    return posterior(rows, prior_of([BASE]), np.random.default_rng(0))


def intervals(fit: Posterior) -> np.ndarray:
    """Low and high ends of every figure of the first device."""
    return np.quantile(fit.drawn_figures(0), ENDS, axis=0)


@pytest.fixture(scope="module")
def forty() -> Posterior:
    """The fit to forty rows."""
    return fitted(planted_rows(40))


def test_planted_figures_are_recovered(forty: Posterior) -> None:
    """All kinds of work, the bandwidth and the fixed times; each in or near its interval."""
    np.testing.assert_allclose(forty.figures(0), FIGURES, rtol=0.25)
    low, high = intervals(forty)
    assert ((low / 1.05 < FIGURES) & (np.array(FIGURES) < 1.05 * high)).all()
    assert 0.03 < np.median(forty.scatter) < 0.09


def test_more_rows_make_narrower_intervals(forty: Posterior) -> None:
    """Without rows the prior's, with 10 and 40 ever narrower, for every figure."""
    none = planted_rows(1).only(np.array([False]))
    widths = [
        np.log(high / low)
        for low, high in map(intervals, (fitted(none), fitted(planted_rows(10)), forty))
    ]

    assert (widths[0] > widths[1]).all() and (widths[1] > widths[2]).all()
    # What no row tells is the prior: convolution's factors 4, 3 and 1.6 together.
    factor = np.exp(np.sqrt(np.log(4.0) ** 2 + np.log(3.0) ** 2 + np.log(1.6) ** 2))
    assert widths[0][0] == pytest.approx(2.0 * np.log(factor), rel=0.15)


def test_an_outlier_does_not_move_the_fit() -> None:
    """A row of five times its seconds moves no figure by much, its own kind's by less than 15 %."""
    rows = planted_rows(20)
    spoilt = rows.measured.copy()
    spoilt[3] *= 5.0

    moved = fitted(replace(rows, measured=spoilt)).figures(0) / fitted(rows).figures(0)

    assert np.abs(np.log(moved)).max() < np.log(1.15)
    assert np.median(np.abs(np.log(moved))) < np.log(1.02)


def test_a_model_that_was_measured_has_the_narrower_interval(forty: Posterior) -> None:
    """It is the scatter of its own rows; that of an unmeasured model is `UNLIKE` times as wide."""
    rows = planted_rows(40)

    found = predictions(rows.only(rows.line == 7), forty, rows)
    other = predictions(replace(rows.only(rows.line == 7), subject=np.array([99])), forty, rows)

    widths = [np.log(one.high / one.low) for (one,) in (found, other)]
    assert widths[0] < widths[1] < 1.2 * UNLIKE * widths[0]
    # Of a fit without any doubt about its figures, exactly so much.
    sure = replace(forty, draws=np.repeat(forty.logs[None], len(forty.draws), axis=0))
    its, theirs = (
        np.log(np.divide(*sure.interval(0, rows.amounts[5], is_measured=known)[::-1]))
        for known in (True, False)
    )
    assert theirs == pytest.approx(UNLIKE * its)


def test_repeats_of_one_model_are_not_as_many_models() -> None:
    """Ten rows of each of four models leave nearly as much open as one of each."""
    rows = planted_rows(4)
    again = np.repeat(np.arange(4), 10)
    repeated = Rows(
        *(getattr(rows, key)[again] for key in ("line", "thing", "subject")),
        rows.amounts[again],
        rows.measured[again],
    )

    once, often = (np.log(np.divide(*intervals(fitted(one))[::-1])) for one in (rows, repeated))

    assert (often > 0.6 * once).all()


@pytest.mark.slow
def test_intervals_cover() -> None:
    """90 % intervals hold 89 % of the true values, drawn from the prior each time."""
    prior, rng = prior_of([BASE]), np.random.default_rng(5)
    inside = []
    for seed in range(120):
        rows = planted_rows(8, seed=seed)
        truth = rng.multivariate_normal(prior.mean[0], prior.covariance)
        scatter = np.exp(np.log(SCATTER) + SCATTER_SPREAD * rng.standard_normal())
        error = scatter * rng.standard_t(4.0, len(rows))
        seconds = np.exp(np.log(rows.amounts @ np.exp(truth)) + error)
        fit = posterior(replace(rows, measured=seconds), prior, rng)
        low, high = np.quantile(fit.draws[:, 0], ENDS, axis=0)
        inside.append((low < truth) & (truth < high))

    # 1,200 figures of 120 machines, those of a machine correlated; of shorter chains, 0.85.
    assert 0.87 < np.mean(inside) < 0.93


def test_an_amount_times_its_value_is_what_the_processor_says() -> None:
    """The sum that is fitted is the sum that is simulated."""
    figures = {"bandwidth_bytes_per_s": 1.2e9, "seconds_per_step": 8e-3, "seconds_per_place": 3e-4}
    rates = Rates(**dict(zip((*FORWARD_KINDS, *STEP_KINDS), FIGURES, strict=False)))
    cpu = Cpu(1, 1e9, 2e9, kappa=1e-28, rates=rates, **figures)
    values = np.exp([term.log(one) for term, one in zip(TERMS, FIGURES, strict=True)])
    work = replace(PIS["mobilenet_v2"], recurrent=1e6, embedding=1e5, recurrent_places=80.0)
    work = replace(work, update=3e6, kernels=2e6)

    cycles = cpu.training_cycles(320.0, work, 20.0)

    assert np.array(amounts(work, 320.0, 20.0)) @ values == pytest.approx(
        float(cpu.compute(cycles, 2e9).duration_s)
    )


@pytest.mark.parametrize(
    "devices",
    [
        list(SECONDS),
        pytest.param(["rpi_5"], marks=pytest.mark.slow),
        pytest.param(["rpi_4b"], marks=pytest.mark.slow),
    ],
)
def test_raspberry_pis_are_predicted_with_each_model_left_out(devices: list[str]) -> None:
    """Within 30 % where the other rows have its kinds; else the kind is named, the interval holds.

    Of both Pis together, and of each by itself: four rows for four terms.
    """
    rows = pi_rows()
    chosen = rows.only(np.isin(rows.thing, [list(SECONDS).index(one) for one in devices]))
    chosen = replace(chosen, thing=chosen.thing - chosen.thing.min())
    prior = prior_of([Base("sbc", PEAKS[one]) for one in devices])

    found = leave_one_out(chosen, prior, np.random.default_rng(0))

    assert len(found) == 4 * len(devices)
    missing = {"mobilenet_v2": ["depthwise"], "vit_b_16": ["dense"]}
    for one in found:
        model = list(PIS)[one.subject]
        # `kernels` are told by models with many weights for their work alone.
        kinds = [kind for kind in one.missing if kind != "kernels"]
        assert kinds == missing.get(model, [])
        assert one.is_inside
        if not kinds:
            assert one.factor < 1.3
