"""Names -> classes -> checked objects: discovery, import paths, validation, schema."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml

from simfl.assembly import registry
from simfl.scenario.plugins import load_file
from simfl.scenario.sections import DataSection, Part
from simfl.scenario.validation.keys import adapter, json_schema, parameters, plain
from simfl.scenario.validation.validate import validate
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.scenario.yaml_source.source import KeyPath, Source
from simfl.system.catalogue import shipped_folder
from simfl.system.uncertainty import DISTRIBUTIONS


def place(folder: Path | str = ".", *keys: str) -> KeyPath:
    """A place in a scenario that lies in `folder`."""
    return KeyPath(Source("x.yaml", Path(folder), {}), keys or ("part",))


# --- discovery ---


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of parts outside simfl."""
    package = tmp_path / "zoo"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "base.py").write_text(
        "from abc import ABC, abstractmethod\n"
        "class Animal(ABC):\n"
        "    @abstractmethod\n"
        "    def sound(self): ...\n"
    )
    (package / "cats.py").write_text(
        "from abc import abstractmethod\n"
        "from zoo.base import Animal\n"
        "class Cat(Animal):\n"
        "    name = 'felix'\n"
        "    def sound(self): return 'meow'\n"
        "class BigWildCat(Cat): ...\n"
        "class HTTPCat(Cat): ...\n"
        "class _Hidden(Cat): ...\n"
        "class Half(Animal):\n"
        "    @abstractmethod\n"
        "    def more(self): ...\n"
        "class Other: ...\n"
    )
    (package / "dogs.py").write_text("from zoo.cats import Cat\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.KINDS, "animals", registry.Kind("zoo", "zoo.base:Animal"))
    for found in (registry.discover, registry.shipped):
        found.cache_clear()
    yield package
    for found in (registry.discover, registry.shipped):
        found.cache_clear()
    for name in [one for one in sys.modules if one.partition(".")[0] == "zoo"]:
        del sys.modules[name]


def test_parts_are_the_concrete_public_subclasses_in_their_own_modules(zoo: Path) -> None:
    """Abstract, private, foreign and merely imported classes are none; a name is not inherited."""
    found = registry.discover("zoo", "zoo.base:Animal")
    assert {name: one.__name__ for name, one in found.items()} == {
        "felix": "Cat",
        "big_wild_cat": "BigWildCat",
        "http_cat": "HTTPCat",
    }


def test_a_part_in_a_module_of_its_own_name_needs_no_other_module(zoo: Path) -> None:
    """Others are searched for in all modules; imported classes, and classes that are no parts, do
    not count.
    """
    (zoo / "emu.py").write_text(
        "from zoo.cats import Cat\nclass Emu(Cat):\n    name = 'emu'\nclass Egg: ...\n"
    )

    emu = registry.shipped("animals", "emu")

    assert emu is not None and emu.__name__ == "Emu"
    assert "zoo.dogs" not in sys.modules
    cat = registry.shipped("animals", "felix")
    assert cat is not None and cat.__name__ == "Cat"
    assert registry.shipped("animals", "cats") is None
    assert registry.shipped("animals", "egg") is None


def test_two_parts_of_one_name_are_a_mistake(zoo: Path) -> None:
    """The second one would hide the first."""
    (zoo / "dogs.py").write_text("from zoo.cats import Cat\nclass Dog(Cat):\n    name = 'felix'\n")
    with pytest.raises(TypeError, match="same name 'felix'"):
        registry.discover("zoo", "zoo.base:Animal")


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_shipped_part_has_a_name_and_a_schema(kind: str) -> None:
    """No kind is empty, and each part's fields can be read."""
    known = registry.names(kind)
    assert known
    text = json.dumps(registry.schema(kind))
    assert all(json.dumps({"const": name}) in text for name in known)


def test_the_data_sections_own_keys_are_known_beside_a_data_sets() -> None:
    """An unknown key of a data set is compared with the frame's keys too."""
    assert set(registry.KINDS["datasets"].beside) == set(DataSection.model_fields)


def test_the_registry_alone_imports_no_torch() -> None:
    """Looking a scenario's frame over stays fast."""
    code = "import sys, simfl.assembly.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- import paths ---

OWN_ALGORITHM = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from simfl.algorithms.base import Algorithm

@dataclass(frozen=True)
class Mine(Algorithm):
    strength: Annotated[float, "> 0", "how much"] = 1.0
"""


def test_a_part_in_ones_own_file(tmp_path: Path) -> None:
    """The file is found beside the scenario; inherited and own fields are checked alike."""
    (tmp_path / "mine.py").write_text(OWN_ALGORITHM)
    part = {"name": "mine.py:Mine", "strength": 2, "local": {"epochs": 3}}
    mine = registry.build("algorithms", part, place(tmp_path))
    assert (mine.strength, mine.local.epochs) == (2.0, 3)
    assert registry.resolve("algorithms", "mine.py:Mine", tmp_path) is type(mine)
    with pytest.raises(ScenarioError, match=r"part\.strength: found 0, accepted: a number > 0"):
        registry.build("algorithms", {**part, "strength": 0}, place(tmp_path))


def test_a_changed_file_is_another_module(tmp_path: Path) -> None:
    """The same content is the same module; the module's name does not tell where it lies."""
    file = tmp_path / "mine.py"
    file.write_text("A = 1")
    first = load_file(file)
    assert load_file(file) is first
    assert str(tmp_path) not in first.__name__
    file.write_text("A = 2")
    assert load_file(file).A == 2


def test_a_users_module_class_is_a_partial_over_its_own_arguments(tmp_path: Path) -> None:
    """A torch module awaits input_shape and outputs; its other arguments are checked."""
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, outputs: int, width: int, slope: float = 0.1):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(width, outputs)\n"
    )
    make = registry.build("models", {"name": "net.py:Net", "width": 4}, place(tmp_path, "model"))
    assert isinstance(make, functools.partial)
    assert make(outputs=3).layer.weight.shape == (3, 4)
    for parameters_, message in [
        ({"width": "4"}, r"model\.width: found '4', accepted: an integer"),
        ({}, r"model\.width: found nothing, accepted: an integer"),
        ({"width": 4, "slop": 1}, r"unknown key 'slop', did you mean 'slope'\?"),
    ]:
        with pytest.raises(ScenarioError, match=message):
            registry.build(
                "models", {"name": "net.py:Net", **parameters_}, place(tmp_path, "model")
            )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent.py:Mine", "which does not exist"),
        ("no.such.module:Mine", "which cannot be imported (ModuleNotFoundError"),
        ("mine.py:Mien", "without the class 'Mien', did you mean 'Mine'?"),
        ("mine.py:", "without the class ''"),
        (":Mine", "which cannot be imported"),
        (
            "neighbour.py:Mine",
            "helper.py lies beside the file, but Python does not look there",
        ),
        ("broken.py:Mine", "broken.py:1: SyntaxError"),
        ("raising.py:Mine", "raising.py:1: ZeroDivisionError"),
        ("json:JSONDecoder", "accepted: a subclass of simfl.plugins.Algorithm"),
        ("half.py:Half", "which does not define more"),
        ("untyped.py:Untyped", "whose fields cannot be read"),
        ("mistaken.py:Plain", "'Plain', no dataclass, which annotates 'mu'"),
        ("mistaken.py:Both", "(mu: '> 0, < 1' is no bound, such as"),
        ("mistaken.py:Turned", "(mu: '=> 0' is no bound"),
        ("mistaken.py:Described", "(mu: '>1 overshoots' is no bound"),
        ("mistaken.py:Halved", "(mu: the bound '>= 0.5' does not fit its type"),
        ("mistaken.py:Text", "(mu: the bound '> 0' does not fit its type"),
        (
            "fedavgg",
            "unknown name 'fedavgg', did you mean 'fedavg'? accepted: afl,",
        ),
        ("xyz", "unknown name 'xyz'; accepted: afl,"),
    ],
)
def test_a_name_that_leads_nowhere(name: str, words: str, tmp_path: Path) -> None:
    """The error is placed at the part's name and says what is wrong, in one line."""
    base = "from __future__ import annotations\nfrom simfl.algorithms.base import Algorithm\n"
    (tmp_path / "mine.py").write_text(OWN_ALGORITHM)
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "neighbour.py").write_text("import helper\n")
    (tmp_path / "broken.py").write_text("class (")
    (tmp_path / "raising.py").write_text("1 / 0")
    (tmp_path / "half.py").write_text(
        f"{base}from abc import ABC, abstractmethod\n"
        "class Half(Algorithm, ABC):\n    @abstractmethod\n    def more(self): ...\n"
    )
    (tmp_path / "untyped.py").write_text(
        f"{base}from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Untyped(Algorithm):\n    x: NoSuchType = None\n"
    )
    annotated = {
        "Both": 'float, "> 0, < 1"',
        "Turned": 'float, "=> 0"',
        "Described": 'float, ">1 overshoots"',
        "Halved": 'int, ">= 0.5"',
        "Text": 'str, "> 0"',
    }
    classes = "".join(
        f"@dataclass(frozen=True)\nclass {one}(Algorithm):\n    mu: Annotated[{of}] = 1\n"
        for one, of in annotated.items()
    )
    (tmp_path / "mistaken.py").write_text(
        f"{base}from dataclasses import dataclass\nfrom typing import Annotated, ClassVar\n"
        "class Plain(Algorithm):\n    seen: ClassVar[int] = 0\n    mu: float = 0.1\n"
        f"{classes}"
    )
    with pytest.raises(ScenarioError) as caught:
        registry.build("algorithms", name, place(tmp_path, "algorithm"))
    assert caught.value.key == "algorithm.name"
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# --- validation by a class's own fields ---


@dataclass(frozen=True)
class Inner:
    """A nested section."""

    low: Annotated[int, ">= 0"] = 0
    high: int = 9

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError("high must not be below low")


@dataclass(frozen=True)
class Everything:
    """A part with fields of every sort."""

    kind: ClassVar[str] = "no field"

    rate: Annotated[float, "> 0", "<= 1", "share of it"]
    sizes: Annotated[tuple[int, ...], ">= 1"] = (3,)
    span: tuple[float, float] = (0.0, 1.0)
    mode: Literal["fast", "slow"] = "fast"
    limit: Annotated[int | None, ">= 1"] = None
    either: int | str = 0
    inner: Inner = field(default_factory=Inner)
    inners: tuple[Inner, ...] = ()
    table: Mapping[str, float] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    on: bool = False
    derived: int = field(default=0, init=False)


def test_yaml_values_become_the_fields_types() -> None:
    """Lists become tuples and sets, integers floats, sections nested objects."""
    built = validate(
        adapter(Everything),
        {
            "rate": 1,
            "sizes": [1, 2],
            "span": [1, 2],
            "either": "x",
            "inner": {"high": 3},
            "inners": [{"low": 1}],
            "table": {"a": 1},
            "tags": ["b", "a"],
        },
        place(),
    )
    assert built == Everything(
        rate=1.0,
        sizes=(1, 2),
        span=(1.0, 2.0),
        either="x",
        inner=Inner(high=3),
        inners=(Inner(low=1),),
        table={"a": 1.0},
        tags=frozenset("ab"),
    )
    assert isinstance(built.rate, float)
    assert plain(built)["tags"] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"rate": "1"}, "part.rate: found '1', accepted: a number > 0 and <= 1 (share of it)"),
        ({"rate": 1.5}, "part.rate: found 1.5, accepted: a number > 0 and <= 1 (share of it)"),
        ({"rate": True}, "part.rate: found true, accepted: a number"),
        ({"rate": float("nan")}, "part.rate: found nan, accepted: a number"),
        ({"sizes": [1, 0]}, "part.sizes.1: found 0, accepted: an integer >= 1"),
        ({"sizes": 3}, "part.sizes: found 3, accepted: a list, each an integer >= 1"),
        ({"span": [1]}, "part.span.1: found nothing, accepted: a number"),
        ({"span": [1, 2, 3]}, "part.span: found [1, 2, 3], accepted: a list of 2"),
        ({"mode": "fst"}, "part.mode: found 'fst', accepted: one of fast, slow"),
        ({"limit": 0}, "part.limit: found 0, accepted: an integer >= 1 or null"),
        ({"either": 1.5}, "part.either: found 1.5, accepted: an integer or text"),
        ({"inner": {"lwo": 1}}, "part.inner.lwo: unknown key 'lwo', did you mean 'low'?"),
        ({"inner": {"low": 3, "high": 1}}, "part.inner.high: found 1, but high must not be"),
        ({"inner": {"low": 30}}, "part.inner.high: found nothing, but high must not be below"),
        ({"inners": [{}, {"low": -1}]}, "part.inners.1.low: found -1, accepted: an integer >= 0"),
        ({"table": {"a": "x"}}, "part.table.a: found 'x', accepted: a number"),
        ({"on": "true"}, "part.on: found 'true', accepted: true or false"),
        ({"derived": 3}, "part.derived: unknown key 'derived'"),
        ({"kind": "x"}, "part.kind: unknown key 'kind'"),
        # A misspelt key is told before the key that is missing because of it.
        ({"rate": None, "raet": 1}, "part.raet: unknown key 'raet', did you mean 'rate'?"),
    ],
)
def test_a_value_that_does_not_fit_its_field(change: dict[str, Any], line: str) -> None:
    """The key path leads to the very value, also in lists and nested sections."""
    with pytest.raises(ScenarioError, match=re.escape(line)):
        validate(adapter(Everything), {"rate": 0.5, **change}, place())


class Plain:
    """Neither a dataclass nor a class with its own arguments."""


class Explicit:
    """Configured by its constructor's arguments."""

    def __init__(self, size: Annotated[int, ">= 1"], *, flag: bool = False, **others: Any) -> None:
        self.size, self.flag, self.others = size, flag, others


def test_a_class_without_fields_is_configured_by_its_constructor() -> None:
    """A class without one takes no keys, `**` takes any."""
    assert parameters(Plain) == ([], False)
    with pytest.raises(ScenarioError, match=r"unknown key 'x'; accepted: no keys"):
        validate(adapter(Plain), {"x": 1}, place())
    built = validate(adapter(Explicit), {"size": 2, "colour": "red"}, place())
    assert (built.size, built.flag, built.others) == (2, False, {"colour": "red"})
    with pytest.raises(ScenarioError, match="found 0, accepted: an integer >= 1"):
        validate(adapter(Explicit), {"size": 0}, place())


def test_complete_fills_in_every_default_and_is_a_fixed_point() -> None:
    """What it returns builds the same object and completes to itself."""
    part = Part.model_validate({"name": "fedprox", "local": {"epochs": 2}})
    keys = registry.complete("algorithms", part, place())
    assert keys["local"]["optimizer"] == "sgd"
    assert keys["local"]["epochs"] == 2
    assert registry.complete("algorithms", keys, place()) == keys
    assert registry.build("algorithms", keys, place()) == registry.build(
        "algorithms", part, place()
    )


@pytest.mark.parametrize("part", [{}, {"name": 3}, {"name": None, "x": 1}])
def test_a_part_without_a_name_is_refused(part: dict[str, Any]) -> None:
    """The error is placed at the name."""
    with pytest.raises(ScenarioError, match=r"part\.name: found .*, accepted: a part's name"):
        registry.build("algorithms", part, place())


# --- schema ---


def test_a_schema_tells_bounds_descriptions_and_defaults() -> None:
    """What an editor shows beside a key."""
    keys = json_schema(adapter(Everything))["properties"]
    assert keys["rate"]["exclusiveMinimum"] == 0
    assert keys["rate"]["maximum"] == 1
    assert keys["rate"]["description"] == "share of it"
    assert keys["inner"]["default"] == {"low": 0, "high": 9}
    assert keys["inner"]["properties"]["low"]["minimum"] == 0


def test_the_whole_schema_is_closed() -> None:
    """Every reference in it leads to a definition in it, and parts stand at their keys."""
    schema = registry.scenario_schema()
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])
    text = json.dumps(schema["properties"]["algorithm"])
    assert '"fedavg"' in text
    assert '"learning_rate"' in text
    digits = json.dumps(schema["properties"]["data"])
    assert '"test_share"' in digits
    assert '"validation_share"' in digits
    groups = [
        one["properties"]["groups"]["items"]["properties"]
        for one in schema["properties"]["population"]["oneOf"]
        if "groups" in one.get("properties", {})
    ]
    assert groups and all('"absence"' in json.dumps(one["availability"]) for one in groups)
    assert all('"min_energy"' in json.dumps(one["allocation"]) for one in groups)


def test_the_schema_of_profiles_has_every_key_of_the_shipped_ones() -> None:
    """By kind; of a processor or link those of its own name."""
    kinds = {one["title"]: one for one in registry.profile_schema()["oneOf"]}
    seen = set()
    for file in shipped_folder().glob("*.yaml"):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        keys = kinds[content["kind"]]
        assert set(content) <= set(keys["properties"]), file
        assert set(keys["required"]) <= set(content), file
        for name in {"processor", "link"} & set(content):
            (part,) = (
                one
                for one in keys["properties"][name]["oneOf"]
                if one.get("properties", {}).get("name") == {"const": content[name]["name"]}
            )
            assert set(content[name]) <= set(part["properties"]), file
        seen.add(content["kind"])
    assert seen == set(kinds)


def test_every_number_of_a_profile_may_have_an_interval() -> None:
    """As `{value, interval}`, in nested sections too; whole numbers and rows of tables may not."""
    schema = registry.profile_schema()
    (device,) = (one for one in schema["oneOf"] if one["title"] == "device")
    figure = {"$ref": "#/$defs/interval"}
    (cpu,) = (
        one
        for one in device["properties"]["processor"]["oneOf"]
        if one.get("properties", {}).get("name") == {"const": "cpu"}
    )

    assert figure in device["properties"]["power_idle_w"]["anyOf"]
    interval = schema["$defs"]["interval"]
    assert interval["required"] == ["value", "interval"]
    assert tuple(interval["properties"]["distribution"]["enum"]) == DISTRIBUTIONS
    assert json.dumps(figure) in json.dumps(cpu["properties"]["rates"])
    for name in ("cores", "frequency_levels_hz"):
        assert json.dumps(figure) not in json.dumps(cpu["properties"][name])
