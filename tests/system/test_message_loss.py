"""How often messages are sent, against the truncated geometric law."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.message_loss import MessageLoss

UNIFORM = Streams(5).uniform("luck", np.arange(1_000_000))


def test_loss_anchor() -> None:
    """q = 0.1 and 3 retries: P(fail) = 1e-4, 1.111 attempts on average."""
    attempts, failed = MessageLoss(attempts_max=4).attempts(0.1, UNIFORM)

    assert failed.mean() == pytest.approx(1e-4, abs=3 * 1e-5)
    assert attempts.mean() == pytest.approx(1.111, abs=3 * 0.35e-3)
    for k in (1, 2, 3):
        share = 0.1**k
        deviation = np.sqrt(share * (1 - share) / UNIFORM.size)
        assert (attempts > k).mean() == pytest.approx(share, abs=3 * deviation)
    assert attempts.max() == 4
    assert (attempts[failed] == 4).all()


@pytest.mark.parametrize(("probability", "attempts", "failed"), [(0.0, 1, False), (1.0, 3, True)])
def test_certainties(probability: float, attempts: int, failed: bool) -> None:
    """Without losses one attempt suffices; with certain loss all attempts fail."""
    sent, lost = MessageLoss(attempts_max=3).attempts(probability, UNIFORM[:100])

    np.testing.assert_array_equal(sent, attempts)
    np.testing.assert_array_equal(lost, failed)


def test_more_loss_means_more_attempts_for_everyone() -> None:
    """The same draws under a larger probability: nobody sends less often."""
    loss = MessageLoss(attempts_max=5)

    few, many = (loss.attempts(q, UNIFORM[:10_000])[0] for q in (0.1, 0.4))

    assert (many >= few).all()
    assert (many > few).any()


def test_the_scenarios_probability_wins() -> None:
    """`probability` holds on every link, whatever the links themselves say."""
    own = MessageLoss().attempts([0.0, 1.0], 0.5)[0]
    same = MessageLoss(probability=1.0).attempts([0.0, 1.0], 0.5)[0]

    np.testing.assert_array_equal(own, [1, 4])
    np.testing.assert_array_equal(same, [4, 4])


def test_waits_grow() -> None:
    """timeout, timeout * backoff, timeout * backoff^2."""
    loss = MessageLoss(timeout_s=0.5, backoff=3.0)

    assert [loss.wait_s(attempt) for attempt in (1, 2, 3)] == [0.5, 1.5, 4.5]
