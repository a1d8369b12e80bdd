"""The colours shared by all pictures."""

from __future__ import annotations

from simfl.runs.runfolder import LoadedRun

# Okabe and Ito's palette, safe for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")

STATE_COLOURS = {
    "idle": "#D9DDE2",
    "download": COLOURS[0],
    "compute": COLOURS[1],
    "upload": COLOURS[2],
    "tail": "#B5DFD1",
}
"""Colours of clients' states. Pale ones mean no work: the machine waits, or its radio stays
awake.
"""


def radio_tails(run: LoadedRun) -> str:
    """A sentence on the radio's tail, with the figures of the clients' links; "" without a tail."""
    used = sorted(set(run.clients["link"]))
    awake = [
        f"{name} for {link['tail_s']:.3g} s at {link['power_tail_w']:.3g} W"
        for name in used
        if (link := run.hardware["links"][name])["tail_s"] and link["power_tail_w"] is not None
    ]
    if not awake:
        return ""
    return f"Tail: after a message a radio stays awake, {' and '.join(awake)}."
