"""Profiles: the shipped files, one's own, plug-ins, and every way to get a file wrong."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simfl.system.catalogue import KINDS, Catalogue, CatalogueError, Kind, shipped_folder
from simfl.system.cost import MissingCost
from simfl.system.cpu import Accelerator, Cpu
from simfl.system.link import FixedRateLink

SHIPPED = [(kind, name) for kind in KINDS for name in Catalogue().list_profiles(kind)]

BOARD = """
kind: device
device_class: sbc
power_idle_w: 1
memory_bytes: 1e9
processor:
  name: cpu
  cores: 4
  frequency_min_hz: 1e8
  frequency_max_hz: 1e9
  kappa: 7e-29
  cycles_per_example: 1e7
sources: {processor.kappa: measured}
unverified: [power_idle_w]
"""


def write(folder: Path, name: str, text: str) -> Catalogue:
    """A catalogue over `folder` with one more profile in it."""
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Catalogue([folder])


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_shipped_profiles_load(kind: Kind, name: str) -> None:
    """Every shipped profile builds."""
    catalogue = Catalogue()
    load = {"device": catalogue.device, "server": catalogue.server, "link": catalogue.link}

    assert load[kind](name) is not None


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_figure_has_a_source_or_is_unverified(kind: Kind, name: str) -> None:
    """Each number of a shipped profile is in `sources` or in `unverified`, never in both."""
    profile = Catalogue().profile(kind, name)

    assert sorted([*profile.sources, *profile.unverified]) == sorted(profile.figures())
    assert all(len(text) > 10 for text in profile.sources.values())


def test_shipped_names() -> None:
    """The catalogue has the devices, servers and links that scenarios name."""
    names = {kind: Catalogue().list_profiles(kind) for kind in KINDS}

    assert {"rpi_4b", "rpi_5", "phone_high_sd865", "phone_mid_sd660", "jetson_nano"} <= set(
        names["device"]
    )
    assert {"edge_xeon_d", "edge_epyc_node", "edge_altra_q64"} <= set(names["server"])
    assert {"wifi5_ac", "lte_2021", "ethernet_1g", "wan_edge_cloud"} <= set(names["link"])


def test_every_shipped_file_is_listed() -> None:
    """No file of the folder is of an unknown kind."""
    assert len(SHIPPED) == len(list(shipped_folder().glob("*.yaml")))


@pytest.mark.parametrize(
    ("name", "board_w"), [("rpi_4b", 7.2), ("rpi_5", 12.7), ("jetson_nano", 10.0)]
)
def test_boards_draw_their_measured_power(name: str, board_w: float) -> None:
    """Idle power and active power at the highest clock add up to the board's measured watts."""
    device = Catalogue().device(name)
    cost = device.processor.compute(1e9, device.processor.frequency_max_hz)

    assert device.power_idle_w + cost.active_j / cost.duration_s == pytest.approx(
        board_w, rel=0.005
    )


def test_phone_draws_about_its_measured_power() -> None:
    """Four prime cores stand for all eight: within 10 % of the 6.4 W that those add up to."""
    device = Catalogue().device("phone_high_sd865")
    cost = device.processor.compute(1e9, device.processor.frequency_max_hz)

    assert float(cost.active_j / cost.duration_s) == pytest.approx(6.4, rel=0.1)


def test_values_arrive(tmp_path: Path) -> None:
    """A file's figures reach the device; 7e-29 and 1e9 are numbers."""
    device = write(tmp_path, "board", BOARD).device("board")

    assert device.name == "board"
    assert device.memory_bytes == 1e9
    assert device.sources == {"processor.kappa": "measured"}
    assert device.unverified == ("power_idle_w",)
    assert device.processor == Cpu(
        cores=4,
        frequency_min_hz=1e8,
        frequency_max_hz=1e9,
        kappa=7e-29,
        cycles_per_example=1e7,
    )


def test_part_names_select_the_class() -> None:
    """`name` under processor or link selects the class."""
    assert isinstance(Catalogue().device("jetson_nano").processor, Accelerator)
    assert isinstance(Catalogue().link("wifi5_ac"), FixedRateLink)


def test_own_folder_wins(tmp_path: Path) -> None:
    """A profile of one's own replaces the shipped one of the same name; the others stay."""
    own = tmp_path / "devices"
    own.mkdir()
    write(own, "rpi_4b", BOARD)

    catalogue = Catalogue(base=tmp_path).with_folders(["devices"])

    assert catalogue.device("rpi_4b").power_idle_w == 1.0
    assert catalogue.device("rpi_5").power_idle_w == 3.1
    assert Catalogue().device("rpi_4b").power_idle_w == 1.6


def test_later_folders_come_first(tmp_path: Path) -> None:
    """`with_folders` searches its folders before those given before; within a call, in order."""
    for folder, idle_w in (("a", "1"), ("b", "2"), ("c", "3")):
        (tmp_path / folder).mkdir()
        text = BOARD.replace("power_idle_w: 1", f"power_idle_w: {idle_w}")
        (tmp_path / folder / "board.yaml").write_text(text)

    catalogue = Catalogue(["a"], tmp_path).with_folders(["b", "c"])

    assert catalogue.device("board").power_idle_w == 2.0


def test_unknown_folder(tmp_path: Path) -> None:
    """A folder that does not exist is an error."""
    with pytest.raises(CatalogueError, match="nowhere: no such folder"):
        Catalogue(["nowhere"], tmp_path)


def test_unknown_name_suggests() -> None:
    """An unknown profile is refused with the nearest name of its kind."""
    with pytest.raises(CatalogueError, match=r"unknown device 'rpi4b', did you mean 'rpi_4b'\?"):
        Catalogue().device("rpi4b")


def test_wrong_kind() -> None:
    """A link is not a device."""
    with pytest.raises(CatalogueError, match="'wifi5_ac' is a link, accepted: a device"):
        Catalogue().device("wifi5_ac")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("power_idle_w: 1", "", "sources: no field power_idle_w"),
        ("power_idle_w: 1", "power_idle_w: one", "power_idle_w: found 'one', accepted: float >= 0"),
        ("power_idle_w: 1", "power_idle_w: -1", "power_idle_w: found -1"),
        ("memory_bytes: 1e9", "", "memory_bytes: missing"),
        ("memory_bytes: 1e9", "memory: 1e9", "memory: unknown key, did you mean 'memory_bytes'?"),
        ("  cores: 4", "  cores: four", "processor.cores: found 'four', accepted: int >= 1"),
        ("  cores: 4", "  core: 4", "processor.core: unknown key, did you mean 'cores'?"),
        ("  name: cpu", "  name: cpus", "processor.name: unknown processor 'cpus', did you mean"),
        ("  name: cpu", "", "processor: missing or not a mapping with a name"),
        ("1e8", "1e10", "processor.frequency_min_hz: found 1e+10"),
        ("kind: device", "kind: devices", "kind: found 'devices', accepted: device, server, link"),
        ("kind: device", "", "kind: found None"),
        ("  cores: 4", "  cores: 4\n  cores: 5", "cores: given twice"),
        ("  cores: 4", "  cores: [", "board.yaml:10: not valid YAML: expected"),
        ("processor.kappa: measured", "processor.kapa: x", "did you mean 'processor.kappa'?"),
        ("sources: {", "sources: [{", "board.yaml:14: not valid YAML: expected"),
        ("{processor.kappa: measured}", "[x]", "sources is a mapping"),
    ],
)
def test_wrong_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    """A wrong file is refused in one line that names file and field."""
    assert old in BOARD
    catalogue = write(tmp_path, "board", BOARD.replace(old, new, 1))

    with pytest.raises(CatalogueError) as caught:
        catalogue.device("board")

    assert str(caught.value).startswith(str(tmp_path / "board.yaml"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- 1\n", "kind: link\nlink: {name: fixed_rate}\nmtu: 3\n"])
def test_wrong_link_files(tmp_path: Path, text: str) -> None:
    """An empty file, a list and a stray key are refused."""
    catalogue = write(tmp_path, "cable", text)

    with pytest.raises(CatalogueError, match=r"cable\.yaml: "):
        catalogue.link("cable")


@pytest.mark.parametrize(
    ("line", "field"),
    [("  kappa: 7e-29", "kappa or power_table"), ("  cycles_per_example: 1e7", "cycles_per_")],
)
def test_missing_cost_names_file_and_field(tmp_path: Path, line: str, field: str) -> None:
    """A device without the figures for time or energy is refused, never priced at zero."""
    text = BOARD.replace(line, "").replace("sources: {processor.kappa: measured}", "")
    catalogue = write(tmp_path, "board", text)

    with pytest.raises(MissingCost, match=rf"board\.yaml: processor: no figure for {field}"):
        catalogue.device("board")


PLUG_IN = '''
from dataclasses import dataclass

from simfl.system.cost import ComputeCost
from simfl.system.cpu import Processor


@dataclass(frozen=True)
class Abacus(Processor):
    """One bead per cycle."""

    beads_per_s: float
    frequency_min_hz: float = 1.0
    frequency_max_hz: float = 1.0
    frequency_levels_hz: None = None

    def flops_cycles(self, flops):
        return flops * 10.0

    def compute(self, cycles, frequency_hz):
        return ComputeCost(cycles / self.beads_per_s, 0.0 * cycles, 2.0 * cycles)
'''


def load_part(folder: Path, kind: str, values: Mapping[str, Any]) -> Any:
    """What a scenario's registry does: import the file, build the class."""
    assert kind == "processors"
    file_name, class_name = values["name"].split(":")
    spec = importlib.util.spec_from_file_location("plug_in", folder / file_name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, class_name)(
        **{key: value for key, value in values.items() if key != "name"}
    )


def plugged(folder: Path, processor: str) -> Catalogue:
    """A catalogue with a device `own` that has the given processor section."""
    (folder / "abacus.py").write_text(PLUG_IN)
    head = BOARD.split("processor:", maxsplit=1)[0]
    (folder / "own.yaml").write_text(f"{head}processor: {processor}\n")
    return Catalogue([folder], resolve=lambda kind, values: load_part(folder, kind, values))


def test_processor_by_import_path(tmp_path: Path) -> None:
    """A processor of one's own, in one's own file, works from a device file."""
    catalogue = plugged(tmp_path, '{name: "abacus.py:Abacus", beads_per_s: 5}')

    processor = catalogue.device("own").processor
    cost = processor.compute(processor.cycles(10, 1.0), 1.0)

    assert type(processor).__name__ == "Abacus"
    assert (float(cost.duration_s), float(cost.active_j)) == (60.0, 600.0)


def test_import_path_to_something_else(tmp_path: Path) -> None:
    """An import path to a class that is no processor is refused."""
    catalogue = plugged(tmp_path, '{name: "abacus.py:dataclass"}')

    with pytest.raises(CatalogueError, match=r"abacus\.py:dataclass is not a Processor"):
        catalogue.device("own")


def test_import_path_without_resolver(tmp_path: Path) -> None:
    """Without a scenario there is nobody to import for."""
    plugged(tmp_path, '{name: "abacus.py:Abacus", beads_per_s: 5}')

    with pytest.raises(CatalogueError, match="import paths need a scenario"):
        Catalogue([tmp_path]).device("own")
