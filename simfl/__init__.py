"""simfl: a discrete-event simulator of federated learning on heterogeneous edge systems.

The public API is `Scenario`, `run` and `load_run`. They are imported when first used, so that
`import simfl` stays light.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.runs.execution import run as run
    from simfl.runs.runfolder import load_run as load_run
    from simfl.scenario.scenario import Scenario as Scenario

__version__ = "0.1.0"
__all__ = ["Scenario", "load_run", "run"]

_HOMES = {
    "Scenario": "simfl.scenario.scenario",
    "run": "simfl.runs.execution",
    "load_run": "simfl.runs.runfolder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if home not in sys.modules:
        _load(home)
    return getattr(importlib.import_module(home), name)


def _load(module: str) -> None:
    """Import a module with all that it needs.

    That stays. To search it for garbage, again and again, takes a tenth of the time: it is made
    old at once.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(module)
    finally:
        gc.freeze()
        gc.unfreeze()
        if collecting:
            gc.enable()
