"""One interface for what a run learns: a run that learns nothing answers every question too."""

import numpy as np

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.protocols.learned_values import Effort
from simfl.protocols.timing_only import TimingOnly
from simfl.provenance.journal import Journal
from tests.small import simulated, small

NOTHING = {"algorithm": {"name": "none"}}
ASKING = {"selection": {"name": "power_of_choice", "count": 2, "factor": 2.0}}


def test_nothing_learned_is_an_answer_to_every_question():
    """Sizes are the model's, work is that of training; facts are absent, none is made up."""
    values = assemble(small(**NOTHING), Options(device="cpu")).make_run(None, Journal()).values
    ref = values.begin(range(8), "cloud")
    clients = np.arange(8)

    assert isinstance(values, TimingOnly)
    assert values.one_model_for_all
    assert np.isnan(values.losses(ref, clients, 0.0)).all()
    assert values.losses(ref, clients, 0.0).shape == (8,)
    assert values.standing(ref) is None
    assert values.evaluation(ref, 0.0) is None
    assert values.contributions is None
    assert values.served_at_clients(ref, 0.0) == values.global_at_clients(ref) == []
    assert values.rewards(ref, 0.0) == []
    assert np.isnan(values.loss_at_start(range(8)))
    assert values.effort == Effort()
    assert not values.snapshot().states
    assert ref.value().weights == {}


def test_a_run_that_learns_nothing_may_ask_for_losses():
    """A selection by losses takes the same seconds and bytes; nobody's loss is known."""
    _, learning = simulated(small(decisions=ASKING, protocol="hierarchical"))
    _, timing = simulated(small(decisions=ASKING, protocol="hierarchical", **NOTHING))

    assert all(timing.laws.values())
    assert timing.accounts.bytes_moved(np.inf) == learning.accounts.bytes_moved(np.inf)
    assert timing.publications.evaluations == []


def test_a_run_that_learns_nothing_leaves_neither_model_nor_snapshot(tmp_path):
    """Though a snapshot is due at every version."""
    run = simfl.run(small(**NOTHING), tmp_path / "run", Options(snapshot_seconds=0.0))

    assert run.manifest["status"] == "completed"
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "snapshot.pt").exists()
    assert "global_loss" not in run.clients
