"""The shipped algorithms: one paper, one file; no clock, no hardware.

Import these classes to derive your own algorithm from a shipped one; the common base, `Algorithm`,
is in `simfl.plugins`. Each class is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfl.common.lazy import lazy

if TYPE_CHECKING:
    from simfl.algorithms.afl import Afl as Afl
    from simfl.algorithms.cffl import Cffl as Cffl
    from simfl.algorithms.cgsv import Cgsv as Cgsv
    from simfl.algorithms.corefed import CoreFed as CoreFed
    from simfl.algorithms.ditto import Ditto as Ditto
    from simfl.algorithms.dp_fedavg import DpFedAvg as DpFedAvg
    from simfl.algorithms.fedave import FedAve as FedAve
    from simfl.algorithms.fedavg import FedAvg as FedAvg
    from simfl.algorithms.fedbn import FedBN as FedBN
    from simfl.algorithms.feddyn import FedDyn as FedDyn
    from simfl.algorithms.fednova import FedNova as FedNova
    from simfl.algorithms.fedopt import FedOpt as FedOpt
    from simfl.algorithms.fedprox import FedProx as FedProx
    from simfl.algorithms.fedrep import FedRep as FedRep
    from simfl.algorithms.fedsac import FedSac as FedSac
    from simfl.algorithms.fedsgd import FedSGD as FedSGD
    from simfl.algorithms.fl_games import FLGames as FLGames
    from simfl.algorithms.moon import Moon as Moon
    from simfl.algorithms.none import NoLearning as NoLearning
    from simfl.algorithms.pfedme import PFedMe as PFedMe
    from simfl.algorithms.qffl import QFfl as QFfl
    from simfl.algorithms.scaffold import Scaffold as Scaffold
    from simfl.algorithms.secure_aggregation import SecureAggregation as SecureAggregation
    from simfl.algorithms.standalone import Standalone as Standalone

__all__ = [
    "Afl",
    "Cffl",
    "Cgsv",
    "CoreFed",
    "Ditto",
    "DpFedAvg",
    "FLGames",
    "FedAve",
    "FedAvg",
    "FedBN",
    "FedDyn",
    "FedNova",
    "FedOpt",
    "FedProx",
    "FedRep",
    "FedSGD",
    "FedSac",
    "Moon",
    "NoLearning",
    "PFedMe",
    "QFfl",
    "Scaffold",
    "SecureAggregation",
    "Standalone",
]

_HOMES = {
    "Afl": "simfl.algorithms.afl",
    "Cffl": "simfl.algorithms.cffl",
    "Cgsv": "simfl.algorithms.cgsv",
    "CoreFed": "simfl.algorithms.corefed",
    "Ditto": "simfl.algorithms.ditto",
    "DpFedAvg": "simfl.algorithms.dp_fedavg",
    "FLGames": "simfl.algorithms.fl_games",
    "FedAve": "simfl.algorithms.fedave",
    "FedAvg": "simfl.algorithms.fedavg",
    "FedBN": "simfl.algorithms.fedbn",
    "FedDyn": "simfl.algorithms.feddyn",
    "FedNova": "simfl.algorithms.fednova",
    "FedOpt": "simfl.algorithms.fedopt",
    "FedProx": "simfl.algorithms.fedprox",
    "FedRep": "simfl.algorithms.fedrep",
    "FedSGD": "simfl.algorithms.fedsgd",
    "FedSac": "simfl.algorithms.fedsac",
    "Moon": "simfl.algorithms.moon",
    "NoLearning": "simfl.algorithms.none",
    "PFedMe": "simfl.algorithms.pfedme",
    "QFfl": "simfl.algorithms.qffl",
    "Scaffold": "simfl.algorithms.scaffold",
    "SecureAggregation": "simfl.algorithms.secure_aggregation",
    "Standalone": "simfl.algorithms.standalone",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
