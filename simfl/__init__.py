"""simfl: a discrete-event simulator of federated learning on heterogeneous edge systems.

What is public stands here, in `simfl.algorithms` and in `simfl.plugins`, and in docs/api.md. Names
are imported when they are first used, so that `import simfl` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfl.common.lazy import lazy

if TYPE_CHECKING:
    from simfl.assembly.simulation import Options as Options
    from simfl.learning.workers.on_ray import RayWorkers as RayWorkers
    from simfl.measures.core.agents import Agents as Agents
    from simfl.measures.core.certificate import certificate as certificate
    from simfl.pictures.curves import plot as plot
    from simfl.provenance.results import FolderStore as FolderStore
    from simfl.runs.battery_levels import battery_levels as battery_levels
    from simfl.runs.execution import federation_of as federation_of
    from simfl.runs.from_python import run as run
    from simfl.runs.runfolder import LoadedRun as LoadedRun
    from simfl.runs.runfolder import load_run as load_run
    from simfl.scenario.scenario import Scenario as Scenario
    from simfl.study.best import best_settings as best_settings
    from simfl.study.comparisons import paired_differences as paired_differences
    from simfl.study.effects import first_order_indices as first_order_indices
    from simfl.study.effects import main_effects as main_effects
    from simfl.study.from_python import study as study
    from simfl.study.hardware import hardware_best as hardware_best
    from simfl.study.hardware import hardware_differences as hardware_differences
    from simfl.study.hardware import hardware_intervals as hardware_intervals
    from simfl.study.loaded import LoadedStudy as LoadedStudy
    from simfl.study.loaded import load_study as load_study
    from simfl.study.means import point_means as point_means
    from simfl.study.pareto import pareto_front as pareto_front
    from simfl.study.pareto import study_front as study_front
    from simfl.study.searched import search_importances as search_importances
    from simfl.study.searched import search_path as search_path
    from simfl.study.sensitivity import sobol_indices as sobol_indices

__version__ = "0.1.0"
__all__ = [
    "Agents",
    "FolderStore",
    "LoadedRun",
    "LoadedStudy",
    "Options",
    "RayWorkers",
    "Scenario",
    "battery_levels",
    "best_settings",
    "certificate",
    "federation_of",
    "first_order_indices",
    "hardware_best",
    "hardware_differences",
    "hardware_intervals",
    "load_run",
    "load_study",
    "main_effects",
    "paired_differences",
    "pareto_front",
    "plot",
    "point_means",
    "run",
    "search_importances",
    "search_path",
    "sobol_indices",
    "study",
    "study_front",
]

_HOMES = {
    "Agents": "simfl.measures.core.agents",
    "FolderStore": "simfl.provenance.results",
    "LoadedRun": "simfl.runs.runfolder",
    "LoadedStudy": "simfl.study.loaded",
    "Options": "simfl.assembly.simulation",
    "RayWorkers": "simfl.learning.workers.on_ray",
    "Scenario": "simfl.scenario.scenario",
    "certificate": "simfl.measures.core.certificate",
    "federation_of": "simfl.runs.execution",
    "load_run": "simfl.runs.runfolder",
    "load_study": "simfl.study.loaded",
    "paired_differences": "simfl.study.comparisons",
    "plot": "simfl.pictures.curves",
    "run": "simfl.runs.from_python",
    "study": "simfl.study",
    "algorithms": "simfl.algorithms",
    "plugins": "simfl.plugins",
    "best_settings": "simfl.study.best",
    "battery_levels": "simfl.runs.battery_levels",
    "first_order_indices": "simfl.study.effects",
    "hardware_best": "simfl.study.hardware",
    "hardware_differences": "simfl.study.hardware",
    "hardware_intervals": "simfl.study.hardware",
    "main_effects": "simfl.study.effects",
    "pareto_front": "simfl.study.pareto",
    "study_front": "simfl.study.pareto",
    "point_means": "simfl.study.means",
    "search_importances": "simfl.study.searched",
    "search_path": "simfl.study.searched",
    "sobol_indices": "simfl.study.sensitivity",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
