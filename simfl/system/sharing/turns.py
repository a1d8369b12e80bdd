"""Links whose senders take turns on one medium."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfl.common.arrays import IntArray
from simfl.system.link import Link


def check_turns(links: Sequence[Link], names: Sequence[str], link_index: IntArray) -> None:
    """Raises ValueError if a client's link has a duty cycle below 1.

    Its turn would include the silence that is imposed on it, which other senders could use.
    """
    for index in np.unique(link_index).tolist():
        if links[index].duty_cycle < 1:
            raise ValueError(
                f"access_sharing: found a rule of turns, but {names[index]} may send only"
                f" {links[index].duty_cycle:g} of the time, and others send in its pauses;"
                " accepted: dedicated, ofdma_equal, ofdma_weighted, max_min, or processor_sharing"
                " with the channel's rate as capacity_bps"
            )
