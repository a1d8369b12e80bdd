"""Links that share one band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfl.common.arrays import IntArray
from simfl.system.link import Link


def check_bands(
    links: Sequence[Link], names: Sequence[str], link_index: IntArray, medium_index: IntArray
) -> None:
    """Raises ValueError if links with bands of different width share a medium.

    The indices, one entry per client, give its link among `links`, and its medium; links without a
    band can share any medium.
    """
    first: dict[int, int] = {}
    pairs = np.unique(np.stack([medium_index, link_index]), axis=1)
    for medium, link in pairs.T.tolist():
        if links[link].bands_hz is None:
            continue
        other = first.setdefault(medium, link)
        if links[other].bands_hz != links[link].bands_hz:
            raise ValueError(
                f"access_sharing: found shares of one band, but {names[other]} and {names[link]},"
                " on the same medium, have bands of different width; accepted: a rule that"
                " shares no band, such as airtime_fair or dedicated"
            )
