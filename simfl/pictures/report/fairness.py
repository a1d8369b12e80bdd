"""The table of a run's report that compares clients."""

from __future__ import annotations

import importlib
import math

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.inequality import jain_index
from simfl.pictures.report.page import Page
from simfl.runs.figure_notes import FIGURE_NOTES
from simfl.runs.runfolder import LoadedRun


def fairness(page: Page, run: LoadedRun) -> None:
    """What clients did, consumed and reached, and the measures of the run."""
    page.heading("Fairness and certificates")
    rows: list[tuple[str, str, float, str]] = []
    clients, accuracy = run.clients, run.accuracy_name
    tests = run.scenario["data"].get("client_test_share")
    own = "test examples" if tests else "training examples"
    for column, what in (
        ("participations", "rounds finished by a client"),
        ("energy_j", "energy of a client (J)"),
        ("global_accuracy", f"{accuracy} of the final global model on a client's {own}"),
        ("served_accuracy", f"{accuracy} of what a client is served, on its {own}"),
    ):
        if column in clients:
            rows += _spread(what, clients[column].to_numpy(dtype=float))
    for measure, figures in run.manifest.get("measures", {}).items():
        what = _what_it_shows(measure)
        for index, (figure, value) in enumerate(figures.items()):
            name = measure.replace("_", " ") if index == 0 else ""
            said = FIGURE_NOTES.get(f"{measure}.{figure}", "")
            shows = ". ".join(filter(None, (what.rstrip(".") if index == 0 else "", said)))
            rows.append((name, figure.replace("_", " "), value, shows))
    page.table(("what", "figure", "value", "what it shows"), rows)
    if not run.manifest.get("measures"):
        page.text(
            "Certificates (core stability, coalition stability, queues, collaborative fairness) are"
            " measures: name them under evaluate.measures; simfl list measures has all.",
            "note",
        )


def _spread(what: str, of_clients: FloatArray) -> list[tuple[str, str, float, str]]:
    """Rows of the table, over the clients that have the figure (R^2 may be missing)."""
    values = of_clients[~np.isnan(of_clients)]
    if not values.size:
        return [(what, "lowest", math.nan, "no client has one")]
    some = f"of the {values.size} of {of_clients.size} clients who have one"
    index = jain_index(values)
    return [
        (what, "lowest", float(values.min()), some if values.size < of_clients.size else ""),
        ("", "mean", float(values.mean()), ""),
        ("", "highest", float(values.max()), ""),
        ("", "Jain's index", index, "none where some are negative" if math.isnan(index) else ""),
    ]


def _what_it_shows(measure: str) -> str:
    """The first line of a shipped measure's module; empty for a user's own measure."""
    try:
        module = importlib.import_module(f"simfl.measures.{measure}")
    except ImportError:
        return ""
    return (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
