"""The layer rule: who may import whom, and no cycles.

A rule takes modules, so that tests can feed it the package as well as a bad source string, and
returns the violations it finds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from tests.architecture.source import Import, Module, imports_of, report


@dataclass(frozen=True)
class Room:
    """What a room may import: parts of simfl beside itself and what is at the bottom; libraries."""

    simfl: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()


def _room(simfl: str = "", libraries: str = "") -> Room:
    return Room(frozenset(simfl.split()), frozenset(libraries.split()))


# What every room may import.
BOTTOM = frozenset({"common", "streams"})

_BELOW_ASSEMBLY = (
    "system learning decisions algorithms protocols measures pictures eventlog scenario"
    " provenance.journal provenance.results assembly.registry runs.runfolder"
)

# A dotted name is a room of its own within a folder: a module, or a folder, that may import less,
# or more, than what lies beside it. A folder's other modules are the room of the folder's name.
ROOMS = {
    "common": _room("", "numpy"),
    "common.ray_cluster": _room("", "ray"),
    "streams": _room("", "numpy"),
    "system": _room("", "simpy numpy"),
    "learning": _room("", "torch torchvision numpy sklearn threadpoolctl"),
    "learning.workers.on_ray": _room("learning common.ray_cluster", "ray torch"),
    "decisions": _room("", "numpy scipy sklearn"),
    # What sparse messages weigh is a formula, the same one for codecs and for submodels.
    "algorithms": _room("learning decisions system.codecs.sparse", "torch numpy scipy"),
    "protocols": _room(
        "system learning decisions algorithms.base algorithms.asked eventlog provenance.journal",
        "simpy numpy",
    ),
    "measures": _room(
        "eventlog runs.runfolder learning", "numpy scipy pandas sklearn lime dp_accounting"
    ),
    # Of a study, what reads it back and its figures; not what runs it.
    "pictures": _room(
        "measures eventlog runs.runfolder runs.figure_notes runs.so_far runs.summary"
        " console.printable"
        " study.loaded study.multiple_comparisons study.studyfile study.levels"
        " study.means study.comparable study.pareto study.comparisons study.effects study.figures"
        " study.regression study.reliability"
        " study.best study.hardware study.curves study.warned study.figure_text study.sensitivity"
        " study.searched study.asking study.polynomial_chaos"
        " calibration.computing calibration.held_out",
        "numpy pandas matplotlib plotly PIL",
    ),
    "eventlog": _room("eventlog.accounts eventlog.rows", "pyarrow pandas numpy"),
    "eventlog.accounts": _room("eventlog.rows", "numpy"),
    "eventlog.rows": _room("eventlog", "numpy"),
    # What reads and checks a scenario's values: below every room but the bottom.
    "scenario": _room("", "pydantic pydantic_core typing_extensions yaml"),
    # Rows that a user measured, to profiles.
    "calibration": _room("system learning assembly.registry scenario", "numpy scipy torch yaml"),
    # Of what lies in a run's folder beside its log, each file by itself.
    "provenance": _room(),
    "provenance.journal": _room("", "safetensors numpy"),
    "provenance.replay": _room("eventlog", "pyarrow"),
    "provenance.lineage": _room("learning algorithms provenance.journal scenario", "torch"),
    "provenance.serialization": _room("algorithms.base learning provenance.journal", "torch numpy"),
    "provenance.results": _room("provenance.serialization", "torch"),
    "provenance.snapshots": _room("provenance.serialization provenance.journal protocols", "torch"),
    # Parts of assembly, each in its own file: the names of parts, the partitioned data, what must
    # fit together.
    "assembly": _room(),
    "assembly.own_names": _room(""),
    "assembly.unrepeatable": _room(""),
    "assembly.registry": _room("scenario assembly.own_names", "pydantic"),
    "assembly.data_partitioning": _room("learning scenario", "numpy torch"),
    "assembly.checks": _room(
        "learning decisions algorithms protocols measures assembly.registry scenario",
        "numpy torch",
    ),
    "assembly.coding": _room("system learning algorithms assembly.registry scenario"),
    "assembly.standalone_baseline": _room("algorithms.base measures scenario"),
    "assembly.trials": _room("system learning decisions algorithms protocols scenario", "numpy"),
    "assembly.shared_generators": _room("learning", "torch"),
    "assembly.kept_state": _room("", "numpy"),
    "assembly.groups": _room("system protocols.deciders scenario", "numpy"),
    "assembly.unread": _room(
        "system algorithms protocols assembly.coding assembly.groups assembly.registry scenario"
    ),
    "assembly.simulation": _room(
        f"{_BELOW_ASSEMBLY} assembly.coding assembly.data_partitioning assembly.groups"
        " provenance.lineage",
        "torch numpy",
    ),
    "assembly.assemble": _room(
        f"{_BELOW_ASSEMBLY} assembly provenance.lineage", "torch numpy simpy"
    ),
    "runs": _room(),
    "runs.summary": _room(),
    "runs.columns": _room("eventlog"),
    "runs.runfolder": _room(
        "runs.summary eventlog provenance.replay scenario.yaml_source", "pyarrow pandas numpy"
    ),
    "runs.files": _room("eventlog provenance.replay runs.runfolder", "filelock"),
    "runs.battery_levels": _room(
        "assembly.assemble eventlog runs.runfolder scenario system.battery", "numpy pandas"
    ),
    "runs.target_warnings": _room("protocols assembly.simulation"),
    "runs.learning_nothing": _room("protocols assembly.simulation", "numpy"),
    "runs.unused_clients": _room("system protocols assembly.simulation", "numpy"),
    "runs.personal_models": _room("protocols assembly.simulation"),
    "runs.wasted_rounds": _room("protocols assembly.simulation"),
    "runs.crowded_media": _room("system eventlog protocols assembly.simulation", "numpy"),
    "runs.weak_chargers": _room("protocols assembly.simulation", "numpy"),
    "runs.regressions": _room("assembly.simulation", "numpy"),
    "runs.test_set": _room("assembly.simulation", "numpy torch"),
    "runs.absences": _room("system protocols assembly.simulation", "numpy"),
    "runs.grid_hours": _room("system assembly.simulation", "numpy"),
    "runs.hardware_warnings": _room("system decisions assembly.simulation", "numpy"),
    "runs.warning_rules": _room(
        "system decisions eventlog protocols measures assembly.simulation runs.learning_nothing"
        " assembly.own_names assembly.unrepeatable runs.hardware_warnings"
        " runs.absences runs.crowded_media runs.grid_hours runs.wasted_rounds runs.weak_chargers"
        " runs.unused_clients runs.personal_models"
        " runs.target_warnings runs.regressions runs.test_set",
        "numpy",
    ),
    "runs.misleading_measures": _room("runs.runfolder"),
    "runs.so_far": _room("runs.runfolder"),
    "runs.tables_so_far": _room("protocols runs.outcome"),
    "runs.figure_notes": _room(),
    "runs.outcome": _room(f"{_BELOW_ASSEMBLY} assembly.simulation", "numpy pyarrow safetensors"),
    "runs.recorder": _room(
        "protocols provenance.journal provenance.snapshots assembly.kept_state"
        " assembly.shared_generators assembly.simulation runs.misleading_measures"
        " runs.warning_rules runs.outcome runs.runfolder runs.files runs.battery_levels",
    ),
    "runs.execution": _room(
        f"{_BELOW_ASSEMBLY} assembly.assemble assembly.checks assembly.simulation"
        " runs.recorder runs.outcome runs.runfolder runs.files runs.tables_so_far"
        " provenance.replay provenance.snapshots",
        "torch pyarrow safetensors",
    ),
    # What Python's users call: it shows how things go.
    "runs.from_python": _room(
        "runs.execution runs.runfolder assembly.assemble assembly.simulation console scenario",
        "torch",
    ),
    "study.from_python": _room("study console"),
    "study": _room(
        "study.from_python runs.execution runs.files runs.target_warnings runs.runfolder"
        " runs.figure_notes"
        " runs.so_far assembly.assemble common.ray_cluster"
        " assembly.simulation assembly.registry assembly.unread eventlog measures"
        " provenance.results protocols.publication scenario",
        "pandas scipy optuna ray numpy pydantic filelock",
    ),
    # Other people's apps: the only room that knows their frameworks, each in files of its own.
    "bridges": _room(
        "protocols learning.calls system bridges.flower_app bridges.flower_grid"
        " bridges.flower_old_servers bridges.flower_strategies bridges.flower_values"
    ),
    "bridges.flower_app": _room("bridges", "flwr"),
    "bridges.flower_grid": _room("bridges protocols", "flwr numpy"),
    "bridges.flower_old_servers": _room("bridges", "flwr"),
    "bridges.flower_strategies": _room("bridges", "flwr"),
    "bridges.flower_values": _room(
        "bridges protocols algorithms.base provenance.journal", "flwr numpy torch"
    ),
    "flower": _room("bridges.present scenario"),
    "exports": _room("runs.runfolder protocols.publication", "torch mlflow"),
    # What a run shows, and what everything is shown with.
    "console": _room(
        "runs.runfolder runs.figure_notes runs.so_far runs.summary scenario study"
        " protocols.publication"
        " calibration"
        " console.printable console.terminal",
        "rich pandas numpy IPython",
    ),
    "console.printable": _room(),
    "console.terminal": _room("console.printable", "rich"),
    # The command line: commands, and what there is to name.
    "cli": _room(
        f"{_BELOW_ASSEMBLY} assembly.assemble assembly.simulation runs.execution"
        " runs.warning_rules runs.battery_levels runs.so_far cli.listing common.ray_cluster console"
        " study exports"
        " calibration flower __init__",
        "typer rich",
    ),
    "cli.listing": _room(
        "assembly.registry system.catalogue system.traces eventlog runs.columns study.kinds"
        " console.terminal"
        " scenario",
        "rich",
    ),
    # The public names: each where it lies, and, of what parts are made of, all in one place.
    "__init__": _room(
        "scenario runs.from_python runs.execution runs.runfolder assembly.simulation"
        " provenance.results"
        " runs.battery_levels study measures.core pictures.curves learning.workers.on_ray"
    ),
    "plugins": _room(f"{_BELOW_ASSEMBLY}"),
    "__main__": _room("cli"),
}

# Libraries that a room may import in some of its modules only.
LOADERS = (
    (
        "system",
        re.compile(r"\.(catalogue|profile_text|\w*trace\w*)(\.\w+)?$"),
        frozenset({"yaml", "pyarrow"}),
    ),
    ("learning", re.compile(r"^simfl\.learning\.datasets\."), frozenset({"pandas"})),
    ("learning", re.compile(r"^simfl\.learning\.datasets\.image_folder$"), frozenset({"PIL"})),
    (
        "learning",
        re.compile(r"\.datasets\.huggingface$"),
        frozenset({"datasets", "pyarrow"}),
    ),
    ("learning", re.compile(r"\.models\.transformers_model$"), frozenset({"transformers"})),
)

# The registry finds parts wherever they are, once it is asked: only what runs at import counts.
LAZY_IMPORTERS = frozenset({"assembly.registry"})


def layer_violations(modules: Iterable[Module]) -> list[str]:
    """Imports that the layer rule forbids: of other rooms, of libraries, and relative ones."""
    found = []
    for module in modules:
        name = _room_name(module.name)
        if name is None:
            found.append(report(module, 1, f"{module.room} is no room of the house"))
            continue
        for one in imports_of(module):
            message = _import_violation(module, name, one)
            if message:
                found.append(report(module, one.line, message))
    return found


def _room_name(dotted: str) -> str | None:
    """The room, the innermost one, that a dotted name below simfl lies in; None: in none."""
    inner = dotted.removeprefix("simfl.") if dotted != "simfl" else "__init__"
    while inner and inner not in ROOMS:
        inner = inner.rpartition(".")[0]
    return inner or None


def _import_violation(module: Module, name: str, one: Import) -> str | None:
    if one.relative:
        return "relative import"
    top = one.target.split(".")[0]
    room = ROOMS[name]
    if top != "simfl":
        libraries = room.libraries.union(
            *(extra for where, pattern, extra in LOADERS if _matches(module, where, pattern))
        )
        if top in sys.stdlib_module_names or top in libraries:
            return None
        return f"{name} imports {top}"
    if name in LAZY_IMPORTERS and one.in_function:
        return None
    target = _room_name(one.target) or "__init__"
    if target in {name, *BOTTOM} and target != "__init__":
        return None
    inner = one.target.removeprefix("simfl.") if target != "__init__" else "__init__"
    if any(inner == part or inner.startswith(f"{part}.") for part in room.simfl):
        return None
    return f"{name} imports {one.target}"


def _matches(module: Module, room: str, where: re.Pattern[str]) -> bool:
    return module.room == room and where.search(module.name) is not None


def import_cycles(modules: Sequence[Module]) -> list[str]:
    """A cycle of modules that import each other, if there is one.

    Imports for type checkers alone count too: who reads one of the modules has to know the others.
    Those inside functions do not: they are there to begin sooner.
    """
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        targets = {
            _longest_known(one.target, names)
            for one in imports_of(module)
            if not (one.relative or one.in_function)
        }
        graph[module.name] = {target for target in targets if target}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []


def _longest_known(target: str, names: set[str]) -> str | None:
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target or None
