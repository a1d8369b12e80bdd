"""Clients of foreign apps that fail, decline, report no number, or compute in threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.runs.execution import run
from tests.bridges.apps import CLIENT, OLD_CLIENT, OLD_SERVER, write_app

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")

from tests.bridges.test_flower import quiet, scenario

pytestmark = pytest.mark.filterwarnings("default")  # Flower's own

__all__ = ["quiet"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_that_always_fails_does_not_end_a_run_whoever_is_asked_first(
    seed: int, tmp_path: Path
) -> None:
    """Its replies are errors, as in Flower, and the others make the versions."""
    fails = "    if context.node_config['partition-id'] == 1:\n        raise ValueError('bad')\n"
    client = CLIENT.replace("    turn = ", f"{fails}    turn = ", 1)
    app = write_app(tmp_path / "app", client=client)

    done = run(scenario(app, f"seed={seed}"), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [3, 3]
    (warning,) = [one for one in done.warnings if one.kind == "client_errors"]
    assert "2 messages were answered with an error; client 1: client.py:" in warning.message


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_that_declines_takes_no_part(seed: int, tmp_path: Path) -> None:
    """In the old API with a status and Flower's empty placeholder of a model."""
    declines = """
class Declining(Client):
    def to_client(self):
        client = super().to_client()
        fit = client.fit
        def declined(asked):
            if self.part == 1:
                status = Status(Code.FIT_NOT_IMPLEMENTED, "not now")
                return FitRes(status, Parameters([], ""), 0, {})
            return fit(asked)
        client.fit = declined
        return client

"""
    client = OLD_CLIENT.replace("app = ClientApp(", f"{declines}app = ClientApp(", 1).replace(
        "lambda context: Client(", "lambda context: Declining("
    )
    client = f"from flwr.common import Code, FitRes, Parameters, Status\n{client}"
    app = write_app(tmp_path / "app", server=OLD_SERVER, client=client)

    done = run(scenario(app, f"seed={seed}"), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [3, 3]
    assert "uncounted_work" not in [one.kind for one in done.warnings]


@pytest.mark.parametrize("metric", ["eval_loss", "eval_acc"])
def test_a_figure_that_is_no_number_does_not_end_a_run(metric: str, tmp_path: Path) -> None:
    """As the mean over an empty test set, while the model is sound: it is left out and told."""
    empty = (
        f"    if context.node_config['partition-id'] == 1:\n        metrics['{metric}'] = np.nan\n"
    )
    place = CLIENT.index('"eval_acc": right}')
    end = CLIENT.index("\n", place) + 1
    app = write_app(tmp_path / "app", client=CLIENT[:end] + empty + CLIENT[end:])

    done = run(scenario(app), tmp_path / "run")

    assert done.manifest["status"] == "completed" and len(done.rounds) == 2
    column, other = ("loss", "accuracy") if metric == "eval_loss" else ("accuracy", "loss")
    assert done.rounds[column].isna().all() and done.rounds[other].notna().all()
    said = [one.message for one in done.warnings if one.kind == "ambiguous_figures"]
    assert any(f"{column} ({metric} of evaluate) was nan" in one for one in said)


def test_an_accuracy_that_only_training_reports_is_told_with_its_key(tmp_path: Path) -> None:
    """Nobody evaluates; the key takes it."""
    client = CLIENT.replace('"drawn": drawn,', '"drawn": drawn, "train_accuracy": 0.5,')
    app = write_app(tmp_path / "app", client=client)
    untested = {"run_config": {"fraction-evaluate": 0.0}}
    unnamed = run(scenario(app, **untested), tmp_path / "unnamed")
    key = "protocol.accuracy=train_accuracy"
    named = run(scenario(app, key, **untested), tmp_path / "named")

    said = [one.message for one in unnamed.warnings if one.kind == "ambiguous_figures"]
    assert any(f"--set {key}" in one for one in said)
    assert named.rounds["accuracy"].tolist() == [0.5, 0.5]


def test_what_threads_compute_is_counted_as_without_them(tmp_path: Path) -> None:
    """Passes side by side, then training in a thread of its own: the same joules in every run."""
    plain = CLIENT.replace("    for _ in range(EPOCHS):", "    for _ in range(EPOCHS + 1):", 1)
    body_from = CLIENT.index("    for _ in range(EPOCHS):")
    body_to = CLIENT.index("    drawn =")
    body = "".join(f"    {line}\n" for line in CLIENT[body_from:body_to].splitlines())
    threads = (
        "    def epochs():\n"
        + body.replace("range(EPOCHS)", "range(1)")
        + "    from concurrent.futures import ThreadPoolExecutor\n"
        + "    with ThreadPoolExecutor(1) as pool:\n"
        + "        for _ in range(EPOCHS + 1):\n"
        + "            pool.submit(epochs).result()\n"
    )
    threaded = CLIENT[:body_from] + threads + CLIENT[body_to:]

    one, other = (
        run(scenario(write_app(tmp_path / name, client=text)), tmp_path / f"{name}_run")
        for name, text in (("plain", plain), ("threads", threaded))
    )

    for column in ("duration_s", "active_j", "cycles"):
        alone, within = (
            its.events[its.events["kind"] == "compute"][column].to_numpy() for its in (one, other)
        )
        np.testing.assert_allclose(within, alone, rtol=1e-9)
