"""How reliable the figures of a single run are."""

from __future__ import annotations

import math
import shlex
from statistics import NormalDist

from simfl.runs.runfolder import LoadedRun

DRAWS = 20
"""Drawn machines in the suggested command; fewer than 19 give no 90 % interval."""


def reliability_sentences(run: LoadedRun) -> list[str]:
    """How uncertain the accuracy is, given the number of test examples, and the command for error
    bars.

    The 95 % interval of the accuracy is Wilson's (JASA 22:209, 1927). Its closed form avoids
    loading scipy at the end of a run.
    """
    sentences = []
    accuracy, _ = run.last_scores or (math.nan, math.nan)
    examples = int(run.manifest.get("test_examples", 0))
    right = accuracy * examples
    # An accuracy over tokens, or one reported by an app, is not a share of the test examples.
    is_share = math.isfinite(right) and math.isclose(right, round(right), abs_tol=1e-3)
    if run.manifest.get("own_models"):
        sentences.append(
            "The accuracy is the mean of clients' own models, each on the whole test set: what a"
            " client has of its model is served_accuracy in clients.parquet."
        )
    elif examples and is_share and run.accuracy_name == "accuracy":
        z2 = NormalDist().inv_cdf(0.975) ** 2
        middle = accuracy + z2 / (2 * examples)
        half = math.sqrt(z2 * (accuracy * (1 - accuracy) + z2 / (4 * examples)) / examples)
        low, high = ((middle + one) / (1 + z2 / examples) for one in (-half, half))
        sentences.append(
            f"On other examples like the {examples} of the test set the accuracy is {low:.3f} to"
            f" {high:.3f} (95 %)."
        )
        if str(run.manifest["reason"]).startswith("accuracy reached"):
            sentences.append(
                "The run stopped as soon as the accuracy was reached, so it is partly luck, and"
                " on other examples more likely lower."
            )
    draw, path = run.scenario["population"].get("hardware_draw"), shlex.quote(str(run.path))
    if draw is not None:
        more = (
            f"One seed, on machines of draw {draw}. For error bars over seeds: `simfl study {path}`"
        )
    else:
        more = (
            "One seed, on machines as profiled. For error bars over seeds and machines:"
            f" `simfl study {path} --draws {DRAWS}`"
        )
    return [*sentences, more]
