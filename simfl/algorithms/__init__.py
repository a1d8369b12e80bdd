"""One paper, one file: no clock, no hardware.

The shipped algorithms by their classes, for those who derive one of their own from one of them;
`Algorithm`, the base of all, is in `simfl.plugins`. Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfl.common.lazy import lazy

if TYPE_CHECKING:
    from simfl.algorithms.afl import Afl as Afl
    from simfl.algorithms.cffl import Cffl as Cffl
    from simfl.algorithms.cgsv import Cgsv as Cgsv
    from simfl.algorithms.corefed import CoreFed as CoreFed
    from simfl.algorithms.fedave import FedAve as FedAve
    from simfl.algorithms.fedavg import FedAvg as FedAvg
    from simfl.algorithms.fedbn import FedBN as FedBN
    from simfl.algorithms.fedprox import FedProx as FedProx
    from simfl.algorithms.fedsac import FedSac as FedSac
    from simfl.algorithms.fedsgd import FedSGD as FedSGD
    from simfl.algorithms.fl_games import FLGames as FLGames
    from simfl.algorithms.none import NoLearning as NoLearning
    from simfl.algorithms.qffl import QFfl as QFfl
    from simfl.algorithms.standalone import Standalone as Standalone

__all__ = [
    "Afl",
    "Cffl",
    "Cgsv",
    "CoreFed",
    "FLGames",
    "FedAve",
    "FedAvg",
    "FedBN",
    "FedProx",
    "FedSGD",
    "FedSac",
    "NoLearning",
    "QFfl",
    "Standalone",
]

_HOMES = {
    "Afl": "simfl.algorithms.afl",
    "Cffl": "simfl.algorithms.cffl",
    "Cgsv": "simfl.algorithms.cgsv",
    "CoreFed": "simfl.algorithms.corefed",
    "FLGames": "simfl.algorithms.fl_games",
    "FedAve": "simfl.algorithms.fedave",
    "FedAvg": "simfl.algorithms.fedavg",
    "FedBN": "simfl.algorithms.fedbn",
    "FedProx": "simfl.algorithms.fedprox",
    "FedSGD": "simfl.algorithms.fedsgd",
    "FedSac": "simfl.algorithms.fedsac",
    "NoLearning": "simfl.algorithms.none",
    "QFfl": "simfl.algorithms.qffl",
    "Standalone": "simfl.algorithms.standalone",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
