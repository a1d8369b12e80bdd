"""The rules of the house hold for the package, and each rule can tell a breach."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.architecture.layers import import_cycles, layer_violations
from tests.architecture.source import Module, package_modules
from tests.architecture.usage import (
    LARGE,
    MAX_ARGUMENTS,
    MAX_FIELDS,
    MAX_LINES,
    learned_values_violations,
    length_violations,
    named_part_violations,
    random_violations,
    size_violations,
    timeout_violations,
)

Rule = Callable[[Sequence[Module]], list[str]]

PACKAGE = Path(__file__).parent.parent / "simfl"
RULES: tuple[Rule, ...] = (
    layer_violations,
    import_cycles,
    timeout_violations,
    random_violations,
    named_part_violations,
    learned_values_violations,
    length_violations,
    size_violations,
)


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    """The package, read once."""
    return package_modules(PACKAGE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule, modules: list[Module]) -> None:
    """No module of simfl breaks the rule; a failure lists file, line and breach."""
    found = rule(modules)

    assert "simfl.streams" in {module.name for module in modules}
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("simfl.system.cpu", "import torch", "system imports torch"),
        ("simfl.system.cpu", "import yaml", "system imports yaml"),
        ("simfl.system.cpu", "from simfl.learning.job import Brief", "imports simfl.learning"),
        ("simfl.system.cpu", "from ..learning import job", "relative import"),
        ("simfl.learning.job", "from simfl.system import cpu", "imports simfl.system.cpu"),
        ("simfl.learning.job", "import pandas", "learning imports pandas"),
        ("simfl.decisions.views", "import torch.nn", "decisions imports torch"),
        ("simfl.decisions.views", "import simfl.learning.job", "imports simfl.learning.job"),
        ("simfl.algorithms.fedavg", "import simpy", "algorithms imports simpy"),
        ("simfl.algorithms.fedavg", "from simfl.provenance import journal", "provenance.journal"),
        ("simfl.protocols.base", "from simfl.algorithms.fedavg import FedAvg", ".fedavg.FedAvg"),
        ("simfl.protocols.base", "import simfl.algorithms.basement", "algorithms.basement"),
        ("simfl.protocols.base", "import torch", "protocols imports torch"),
        (
            "simfl.assembly.registry",
            "import simfl.algorithms.base",
            "imports simfl.algorithms.base",
        ),
        (
            "simfl.assembly.trials",
            "from simfl.assembly import checks",
            "imports simfl.assembly.ch",
        ),
        (
            "simfl.runs.runfolder",
            "from simfl.provenance.journal import Journal",
            "imports simfl.prov",
        ),
        ("simfl.runs.runfolder", "import simfl.runs.execution", "imports simfl.runs.execution"),
        ("simfl.runs.runfolder", "import torch", "runs.runfolder imports torch"),
        (
            "simfl.scenario.scenario",
            "from simfl import assembly",
            "imports simfl.assembly",
        ),
        ("simfl.scenario.scenario", "from simfl import run", "scenario imports simfl.run"),
        ("simfl.measures.cost", "import simfl", "measures imports simfl"),
        ("simfl.assembly.assemble", "import simfl.cli", "assembly.assemble imports simfl.cli"),
        ("simfl.cli.app", "import torch", "cli imports torch"),
        ("simfl.common.files", "import simfl.scenario", "common imports simfl.scenario"),
        ("simfl.runs.kitchen", "import torch", "runs imports torch"),
        ("simfl.streams", "from simfl.assembly import registry", "streams imports simfl.assembly"),
        (
            "simfl.eventlog.log",
            "def f():\n    import torch",
            "simfl.eventlog.log:2: eventlog imports torch",
        ),
        ("simfl.eventlog.log", "if TYPE_CHECKING:\n    import torch", ":2: eventlog imports torch"),
        ("simfl.eventlog.log", 'import_module("simfl.system.cpu")', "imports simfl.system.cpu"),
        ("simfl.kitchen", "x = 1", "kitchen is no room of the house"),
    ],
)
def test_a_forbidden_import_is_reported(name: str, source: str, message: str) -> None:
    """Other rooms, other libraries and relative imports are told with their place."""
    found = layer_violations([Module.parse(name, source)])

    assert len(found) == 1
    assert found[0].startswith(f"{name}:")
    assert message in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("simfl.system.cpu", "import simpy, numpy, math\nfrom simfl.system.cost import Cost"),
        ("simfl.system.catalogue", "import yaml"),
        ("simfl.system.availability.trace", "import pyarrow.parquet"),
        ("simfl.system.cpu", "from simfl.streams import Streams"),
        ("simfl.system.cpu", "from simfl import streams"),
        ("simfl.learning.datasets.table", "import pandas"),
        ("simfl.protocols.base", "from simfl.algorithms.base import Algorithm"),
        ("simfl.protocols.base", "from simfl.algorithms import base"),
        ("simfl.assembly.registry", "def find():\n    import simfl.algorithms.base"),
        ("simfl.cli.app", "def f():\n    from simfl.runs.execution import run"),
        ("simfl.system.cpu", "from simfl.common.contract import at_work"),
        ("simfl", "from simfl.scenario.scenario import Scenario"),
    ],
)
def test_an_allowed_import_is_not_reported(name: str, source: str) -> None:
    """What the table allows passes."""
    assert layer_violations([Module.parse(name, source)]) == []


def test_an_import_cycle_is_reported() -> None:
    """Three modules that import each other in a ring are named."""
    modules = [
        Module.parse("simfl.learning.a", "from simfl.learning import b"),
        Module.parse("simfl.learning.b", "from simfl.learning.c import thing"),
        Module.parse("simfl.learning.c", "class C:\n    import simfl.learning.a"),
    ]

    found = import_cycles(modules)

    assert len(found) == 1
    assert all(module.name in found[0] for module in modules)


@pytest.mark.parametrize(
    ("source", "cycles"),
    [
        ("def f():\n    import simfl.learning.a", 0),
        ("if TYPE_CHECKING:\n    import simfl.learning.a", 1),
        ("if typing.TYPE_CHECKING:\n    from simfl.learning.a import A", 1),
    ],
)
def test_a_cycle_that_only_type_checkers_see_is_one(source: str, cycles: int) -> None:
    """Imports inside functions close none; those for types do, though nothing breaks."""
    modules = [
        Module.parse("simfl.learning.a", "import simfl.learning.b"),
        Module.parse("simfl.learning.b", source),
    ]

    assert len(import_cycles(modules)) == cycles


@pytest.mark.parametrize(
    "source",
    ["yield env.timeout(3)", "self.run.env.timeout(3)", "world().timeout(3)", "env.timeout"],
)
def test_a_timeout_outside_protocols_and_system_is_reported(source: str) -> None:
    """Called on anything, or taken from an environment to be called elsewhere."""
    lines = f"def f():\n    {source}"

    found = timeout_violations([Module.parse("simfl.assembly.assemble", lines)])

    assert [line.split(": ")[0] for line in found] == ["simfl.assembly.assemble:2"]
    assert timeout_violations([Module.parse("simfl.protocols.base", lines)]) == []
    assert timeout_violations([Module.parse("simfl.system.link", lines)]) == []


def test_another_attribute_called_timeout_is_not_reported() -> None:
    """An event kind or a field of that name is not a timeout."""
    assert timeout_violations([Module.parse("simfl.eventlog.log", "kinds.timeout")]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nx = np.random.rand()",
        "import numpy\nx = numpy.random.default_rng(1)",
        "import numpy.random\nx = numpy.random.default_rng(1)",
        "import numpy.random as draws\nx = draws.normal()",
        "from numpy import random\nx = random.normal()",
        "from numpy.random import default_rng as new\nx = new(1)",
        "import numpy as np\nx = np.random.Generator(bits)",
        "import numpy as np\nx = field(default_factory=np.random.default_rng)",
        "import numpy as np\nhidden = np.random",
        "\nimport random",
        "\nfrom random import shuffle",
    ],
)
def test_randomness_outside_streams_is_reported(source: str) -> None:
    """However numpy.random is imported, called, passed on or hidden behind a name."""
    found = random_violations([Module.parse("simfl.decisions.views", source)])

    assert [line.split(": ")[0] for line in found] == ["simfl.decisions.views:2"]
    assert random_violations([Module.parse("simfl.streams", source)]) == []


def test_a_generator_may_be_named_as_a_type() -> None:
    """Annotations, type aliases and isinstance name the type that is passed in."""
    source = """
import numpy as np
Rng = np.random.Generator
class C:
    rng: np.random.Generator
def f(rng: np.random.Generator | None, bits: np.random.BitGenerator) -> np.random.Generator:
    assert isinstance(rng, np.random.Generator)
    return rng.random()
"""

    assert random_violations([Module.parse("simfl.decisions.views", source)]) == []


@pytest.mark.parametrize(
    "source",
    [
        'algorithm == "fedavg"',
        '"fedavg" != run.algorithm',
        'run.algorithm.name == "fedavg"',
        'scenario["algorithm"]["name"] == "fedavg"',
        'type(self.algorithm).__name__ == "FedAvg"',
        'algorithm in ("fedavg", "fedprox")',
        'match algorithm:\n    case "fedavg" | "fedprox":\n        pass',
        'protocol.name == "buffered"',
        'type(one.protocol).__name__ in {"Buffered", "Asynchronous"}',
    ],
)
def test_an_algorithm_or_protocol_compared_with_a_string_is_reported(source: str) -> None:
    """Nobody may ask which of them it is, by whatever spelling."""
    found = named_part_violations([Module.parse("simfl.protocols.base", source)])

    assert found == ["simfl.protocols.base:1: algorithm or protocol asked by name"]


@pytest.mark.parametrize(
    "source",
    [
        'key == "algorithm"',
        "algorithm is None",
        "algorithm == other",
        'algorithm.local.kind == "x"',
    ],
)
def test_other_comparisons_are_not_reported(source: str) -> None:
    """Keys, identity and an algorithm's hyper-parameters may be compared."""
    assert named_part_violations([Module.parse("simfl.assembly.assemble", source)]) == []


def test_asking_which_values_these_are_is_reported() -> None:
    """By whatever spelling of the class; an `isinstance` of other things is not."""
    source = """
isinstance(values, Values)
isinstance(run.values, (values.Values, Other))
isinstance(values, Other | TimingOnly)
isinstance(values, LearnedValues)
"""

    found = learned_values_violations([Module.parse("simfl.runs.outcome", source)])

    assert [line.split(": ")[0] for line in found] == [
        "simfl.runs.outcome:2",
        "simfl.runs.outcome:3",
        "simfl.runs.outcome:4",
    ]


def test_a_long_file_is_reported() -> None:
    """One line over the limit fails, the limit itself passes."""
    at_limit = Module.parse("simfl.system.cpu", "x = 1\n" * MAX_LINES)
    over = Module.parse("simfl.system.link", "x = 1\n" * (MAX_LINES + 1))

    found = length_violations([at_limit, over])

    assert found == [f"simfl.system.link: {MAX_LINES + 1} lines, at most {MAX_LINES}"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "class Many:\n"
            f"    def __init__(self{''.join(f', a{n}' for n in range(MAX_ARGUMENTS + 1))}): pass\n",
            f"Many has {MAX_ARGUMENTS + 1} arguments and 0 fields",
        ),
        (
            "class Hidden:\n    def __init__(self, **columns): pass\n",
            f"Hidden has {MAX_ARGUMENTS + 1} arguments and 0 fields",
        ),
        (
            "@dataclass(frozen=True)\nclass Wide:\n"
            + "".join(f"    a{n}: int\n" for n in range(MAX_ARGUMENTS + 1)),
            f"Wide has {MAX_ARGUMENTS + 1} arguments and {MAX_ARGUMENTS + 1} fields",
        ),
        (
            "class Full:\n    def go(self):\n"
            + "".join(f"        self.a{n} = 1\n" for n in range(MAX_FIELDS + 1)),
            f"Full has 0 arguments and {MAX_FIELDS + 1} fields",
        ),
    ],
)
def test_a_large_class_is_reported(source: str, message: str) -> None:
    """By its constructor, hidden or not, and by what its methods assign."""
    line = 1 + source.startswith("@")

    assert size_violations([Module.parse("simfl.protocols.new", source)]) == [
        f"simfl.protocols.new:{line}: {message}"
    ]
    assert size_violations([Module.parse("simfl.learning.new", source)]) == []


def test_large_classes_that_are_let_through_are_large(modules: list[Module]) -> None:
    """An exception that nobody needs any more goes."""
    names = "|".join(LARGE)
    found = [one for one in modules if re.search(rf"^class ({names})\b", one.text, re.MULTILINE)]
    renamed = [
        Module.parse(one.name, re.sub(rf"\b({names})\b", r"Its\1", one.text)) for one in found
    ]

    assert len(size_violations(renamed)) == len(LARGE)
