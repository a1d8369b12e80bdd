"""The summary of a run in a few figures, for terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simfl.common.accuracy_name import accuracy_name
from simfl.common.quantity import in_vain, quantity


def main_figures(
    manifest: Mapping[str, Any], scores: tuple[float, float] | None
) -> list[tuple[str, str]]:
    """Label and figure; a label is indented by two blanks per level below another's.

    `scores` are the final accuracy and loss, NaN if unknown.
    """
    rows = []
    if scores is not None:
        named = zip((accuracy_name(manifest.get("task")), "loss"), scores, strict=True)
        rows += [(name, f"{score:.4f}") for name, score in named if not math.isnan(score)]
    return [
        *rows,
        ("global versions", str(manifest["counts"]["versions"])),
        ("simulated time", quantity(manifest["horizon_s"], "s")),
        ("energy", quantity(manifest["energy_j"], "J")),
        ("  of clients", quantity(manifest["client_energy_j"], "J")),
        ("    beyond idle power", quantity(manifest["client_active_j"], "J")),
        ("  of servers", quantity(manifest["server_energy_j"], "J")),
        ("  of the network", quantity(manifest["network_energy_j"], "J")),
        *footprint(manifest),
        *batteries(manifest),
        *wasted(manifest),
        ("bytes over all links", quantity(manifest["bytes"], "B") + in_vain(manifest)),
        *over_the_backhaul(manifest),
    ]


def over_the_backhaul(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and figure of bytes that crossed the backhaul, if any did."""
    crossed = manifest.get("backhaul_bytes")
    return [("  over the backhaul", quantity(crossed, "B"))] if crossed else []


def wasted(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and figure of client rounds that brought no merged update, if there were any."""
    rounds, joules = manifest.get("wasted_rounds"), manifest.get("wasted_active_j", math.nan)
    if not rounds:
        return []
    told = f"{rounds} of {manifest['client_rounds']} ({rounds / manifest['client_rounds']:.0%})"
    if not math.isnan(joules):
        told += f", {quantity(joules, 'J')} beyond idle power"
    return [("client rounds in vain", told)]


def batteries(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and figure of batteries, if clients have some."""
    if "battery_level" not in manifest:
        return []
    told = (
        f"{manifest['battery_level']:.1%} on average, the lowest"
        f" {manifest['lowest_battery_level']:.1%}, {manifest['emptied_clients']} ran empty"
    )
    return [("batteries at the end", told)]


def footprint(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and figure of CO2 and money, if the scenario's regions have them."""
    rows = []
    if (grams := manifest.get("carbon_gco2")) is not None:
        rows.append(("CO2 equivalent", quantity(grams, "g")))
    if (cost := manifest.get("electricity_cost")) is not None:
        rows.append(("electricity", f"{cost:.3g} {manifest.get('currency') or ''}".rstrip()))
    return rows


def who_trained(workers: Sequence[Mapping[str, Any]]) -> str:
    """How much each of a run's workers trained, in a sentence; see `workers` of a manifest."""
    jobs = [each["jobs"] for each in workers]
    seconds = quantity(sum(each["training_s"] for each in workers), "s")
    if len(workers) == 1:
        return f"1 worker trained {jobs[0]} jobs in {seconds}"
    return (
        f"{len(workers)} workers trained {sum(jobs)} jobs, {min(jobs)} to {max(jobs)} each,"
        f" in {seconds} of theirs"
    )
