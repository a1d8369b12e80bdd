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

from tests.architecture.source import Import, Module, imports_of, report, room_of


@dataclass(frozen=True)
class Room:
    """What a room may import: parts of simfl beside itself and `streams`, and libraries."""

    simfl: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()


def _room(simfl: str = "", libraries: str = "") -> Room:
    return Room(frozenset(simfl.split()), frozenset(libraries.split()))


# What reads and checks a scenario's values: beside one another, below every room.
_FRAME = "scenario accepted contract plugins suggestion validation yaml_source"

_BELOW_ASSEMBLY = (
    "system learning decisions algorithms protocols measures pictures "
    f"accounts amounts eventlog journal registry results runfolder {_FRAME}"
)

_READERS = _room(f"limits {_FRAME}", "pydantic pydantic_core typing_extensions yaml")

ROOMS = {
    # What a run warns of: for who notices it, and for who reads it back.
    "notices": _room(),
    # How large numbers may be: for who reads them, and for whose clock must bear them.
    "limits": _room(),
    "system": _room("amounts contract limits", "simpy numpy"),
    "learning": _room("contract", "torch torchvision numpy sklearn threadpoolctl"),
    "decisions": _room("amounts contract", "numpy scipy sklearn"),
    # What sparse messages weigh is a formula, the same one for codecs and for submodels.
    "algorithms": _room(
        "learning decisions system.codecs.sparse amounts contract plain", "torch numpy scipy"
    ),
    "protocols": _room(
        "limits system learning decisions algorithms.base algorithms.asked accounts eventlog"
        " eventrows journal amounts contract notices plain",
        "simpy numpy",
    ),
    # What was split off the log's own file may be used where the log may: its books (accounts) by
    # whoever writes it, load_run (runfolder) by whoever reads it.
    "measures": _room("eventlog runfolder learning", "numpy scipy pandas sklearn lime"),
    # Of a study, what reads it back and its figures; not what runs it.
    "pictures": _room(
        "files measures eventlog runfolder printable study.loaded study.studyfile study.means "
        "study.pareto study.comparisons study.effects study.figures study.warned study.words",
        "numpy pandas matplotlib plotly",
    ),
    "files": _room(),
    "accounts": _room("", "numpy"),
    "eventrows": _room("", "numpy"),
    "eventlog": _room("accounts eventrows files", "pyarrow pandas numpy"),
    "journal": _room("files plain", "safetensors numpy"),
    # Everyday numbers of parts: as the engine takes them, and as JSON.
    "amounts": _room("contract", "numpy"),
    "plain": _room(),
    "streams": _room("", "numpy"),
    **dict.fromkeys(_FRAME.split(), _READERS),
    "registry": _room(_FRAME, "pydantic"),
    "runfolder": _room("eventlog files notices plain replay yaml_source", "pyarrow pandas"),
    "run_files": _room("eventlog files replay runfolder", "filelock"),
    # Parts of assembly, each in its own file: the data as dealt, what learned values depend on,
    # what must fit together.
    "dealing": _room(f"learning {_FRAME}", "numpy torch"),
    "lineage": _room(f"learning algorithms journal {_FRAME}", "torch"),
    "checks": _room(
        f"learning decisions algorithms protocols measures registry {_FRAME}", "numpy torch"
    ),
    "prelude": _room(f"algorithms.base measures {_FRAME}"),
    "trials": _room(f"system learning decisions algorithms protocols {_FRAME}", "numpy"),
    "unread": _room(f"system algorithms protocols registry {_FRAME}"),
    "simulation": _room(f"{_BELOW_ASSEMBLY} dealing", "torch numpy"),
    "assembly": _room(
        f"{_BELOW_ASSEMBLY} plain simulation checks dealing lineage prelude trials unread",
        "torch numpy simpy",
    ),
    "battery_levels": _room("assembly eventlog runfolder scenario system.battery", "numpy pandas"),
    "replay": _room("eventlog", "pyarrow"),
    "serialization": _room("algorithms.base learning journal", "torch numpy"),
    "results": _room("files serialization", "torch"),
    "snapshots": _room("files serialization journal notices protocols", "torch"),
    "oddities": _room("system protocols measures notices simulation", "numpy"),
    "outcome": _room(f"{_BELOW_ASSEMBLY} files plain simulation", "numpy pyarrow safetensors"),
    "execution": _room(
        f"{_BELOW_ASSEMBLY} assembly simulation files notices oddities outcome replay run_files"
        " snapshots",
        "torch numpy pandas pyarrow safetensors",
    ),
    "study": _room(
        "execution assembly eventlog notices run_files runfolder measures simulation results"
        f" registry unread protocols.publication {_FRAME}",
        "pandas scipy ray numpy pydantic filelock",
    ),
    "exports": _room("runfolder protocols.publication", "torch mlflow"),
    # The command line in three files: commands, what a run shows, what there is to name.
    "printable": _room(),
    "terminal": _room("printable", "rich"),
    "console": _room(
        "notices runfolder scenario study protocols.publication printable terminal", "rich pandas"
    ),
    "listing": _room(
        "registry system.catalogue system.traces eventlog suggestion terminal", "rich"
    ),
    "cli": _room(
        f"{_BELOW_ASSEMBLY} assembly simulation execution battery_levels console listing study"
        " exports printable __init__",
        "typer rich",
    ),
    "__init__": _room("scenario execution runfolder"),
    "__main__": _room("cli"),
}

# Libraries that a room may import in some of its modules only.
LOADERS = (
    ("system", re.compile(r"\.(catalogue|\w*trace\w*)(\.\w+)?$"), frozenset({"yaml", "pyarrow"})),
    ("learning", re.compile(r"^simfl\.learning\.datasets\."), frozenset({"pandas"})),
)

# The registry finds parts wherever they are, once it is asked: only what runs at import counts.
LAZY_IMPORTERS = frozenset({"registry"})


def layer_violations(modules: Iterable[Module]) -> list[str]:
    """Imports that the layer rule forbids: of other rooms, of libraries, and relative ones."""
    found = []
    for module in modules:
        if module.room not in ROOMS:
            found.append(report(module, 1, f"{module.room} is no room of the house"))
            continue
        for one in imports_of(module):
            message = _import_violation(module, one)
            if message:
                found.append(report(module, one.line, message))
    return found


def _import_violation(module: Module, one: Import) -> str | None:
    if one.relative:
        return "relative import"
    top = one.target.split(".")[0]
    room = ROOMS[module.room]
    if top != "simfl":
        libraries = room.libraries.union(
            *(extra for name, where, extra in LOADERS if _matches(module, name, where))
        )
        if top in sys.stdlib_module_names or top in libraries:
            return None
        return f"{module.room} imports {top}"
    if module.room in LAZY_IMPORTERS and one.in_function:
        return None
    target = room_of(one.target)
    if target not in ROOMS:
        target = "__init__"
    if target in {module.room, "streams"} and target != "__init__":
        return None
    inner = one.target.removeprefix("simfl.") if target != "__init__" else "__init__"
    if any(inner == part or inner.startswith(f"{part}.") for part in room.simfl):
        return None
    return f"{module.room} imports {one.target}"


def _matches(module: Module, room: str, where: re.Pattern[str]) -> bool:
    return module.room == room and where.search(module.name) is not None


def import_cycles(modules: Sequence[Module]) -> list[str]:
    """A cycle of modules that import each other when imported, if there is one.

    Imports inside functions and for type checkers do not count: they break no import.
    """
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        targets = {
            _longest_known(one.target, names)
            for one in imports_of(module)
            if not (one.relative or one.in_function or one.typing_only)
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
