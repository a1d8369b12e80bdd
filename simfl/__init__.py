"""simfl: a discrete-event simulator of federated learning on heterogeneous edge systems.

The public API is `Scenario`, `run` and `load_run`. They are imported when first used, so that
`import simfl` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.execution import run as run
    from simfl.runfolder import load_run as load_run
    from simfl.scenario import Scenario as Scenario

__version__ = "0.1.0"
__all__ = ["Scenario", "load_run", "run"]

_HOMES = {"Scenario": "simfl.scenario", "run": "simfl.execution", "load_run": "simfl.runfolder"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
