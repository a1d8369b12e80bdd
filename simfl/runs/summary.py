"""What a run came to, in a few figures: the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simfl.common.quantity import quantity

if TYPE_CHECKING:
    import pandas as pd


def main_figures(manifest: Mapping[str, Any], rounds: pd.DataFrame | None) -> list[tuple[str, str]]:
    """Label and figure; a label begins with two blanks per level that it belongs to another's."""
    rows = []
    scored = None if rounds is None else rounds.dropna(subset="accuracy")
    if scored is not None and len(scored):
        last = scored.iloc[-1]
        rows += [("accuracy", f"{last['accuracy']:.4f}"), ("loss", f"{last['loss']:.4f}")]
    return [
        *rows,
        ("global versions", str(manifest["counts"]["versions"])),
        ("simulated time", quantity(manifest["horizon_s"], "s")),
        ("energy", quantity(manifest["energy_j"], "J")),
        ("  of clients", quantity(manifest["client_energy_j"], "J")),
        ("    beyond idle power", quantity(manifest["client_active_j"], "J")),
        ("  of servers", quantity(manifest["server_energy_j"], "J")),
        ("  of the network", quantity(manifest["network_energy_j"], "J")),
        ("bytes over all links", quantity(manifest["bytes"], "B")),
    ]
