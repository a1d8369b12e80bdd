"""Profiles: the shipped files, one's own, plug-ins, and every way to get a file wrong."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simfl.system.accelerator import Accelerator
from simfl.system.catalogue import KINDS, Catalogue, CatalogueError, Kind, shipped_folder
from simfl.system.cost import MissingCost
from simfl.system.cpu import Cpu
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
    load = {
        "device": catalogue.device,
        "server": catalogue.server,
        "link": catalogue.link,
        "region": catalogue.region,
    }

    assert load[kind](name) is not None


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_figure_has_a_source_or_is_unverified(kind: Kind, name: str) -> None:
    """Each number of a shipped profile is in `sources` or in `unverified`, never in both."""
    profile = Catalogue().profile(kind, name)

    assert sorted([*profile.sources, *profile.unverified]) == sorted(profile.figures())
    assert all(len(text) > 10 for text in profile.sources.values())


DEVICES = """
coral_dev_board esp32_s3 flash_femnist_fast flash_femnist_mid flash_femnist_slow
jetson_agx_xavier jetson_nano jetson_orin_nano jetson_tx2 jetson_xavier_nx laptop_ryzen_ai340
macmini_m4 minipc_n100 phone_apple_a15 phone_entry_heliog80 phone_flagship_sd8gen2
phone_flagship_sd8plus_gen1 phone_galaxy_note10 phone_high_sd865 phone_mid_sd660 phone_nexus6
phone_redmi_note8 rpi_3b_plus rpi_4b rpi_5 rpi_zero_2w stm32h743
"""
SERVERS = "cloud_a100 cloud_h200 cloud_v100 edge_altra_q64 edge_epyc_node edge_xeon_d"
UNITS = ("_s", "_hz", "_w", "_j", "_bps", "_bytes", "_per_s", "_per_byte", "_per_bps")
WITHOUT_UNIT = {"cores", "batch_examples", "kappa", "efficiency", "power_table"} | {
    "seconds_per_batch",
    "seconds_per_step",
    "seconds_per_place",
}
"""Counts, shares, times that begin with their unit, and the two whose unit their description tells.

`rates` are FLOP/s.
"""


def test_shipped_names() -> None:
    """The catalogue has every device of the hardware survey, and what scenarios name."""
    names = {kind: Catalogue().list_profiles(kind) for kind in KINDS}

    assert names["device"] == DEVICES.split()
    assert names["server"] == SERVERS.split()
    assert {"wifi5_ac", "lte_2021", "ethernet_1g", "wan_edge_cloud"} <= set(names["link"])


@pytest.mark.parametrize("name", [*DEVICES.split(), *SERVERS.split()])
def test_figures_are_in_si_units_named_by_their_keys(name: str) -> None:
    """Every figure's key ends in its unit, and values have the magnitude of that unit."""
    kind: Kind = "device" if name in DEVICES.split() else "server"
    profile = Catalogue().profile(kind, name)

    for path in profile.figures():
        key = path.rpartition(".")[2]
        assert key.endswith(UNITS) or key in WITHOUT_UNIT or ".rates." in path, path
    processor = profile.values["processor"]
    assert 1e7 < processor["frequency_max_hz"] < 6e9
    if "seconds_per_batch" in processor:
        assert 0.01 < processor["seconds_per_batch"] < 100
    else:
        assert 1e7 < processor["flops_per_s"] < 1e14
    assert 1e-3 < profile.values["power_idle_w"] < 200
    assert profile.about


def test_the_first_sentence_of_a_file_says_what_it_is(tmp_path: Path) -> None:
    """The comment at the head, up to its first full stop; nothing where there is no comment."""
    text = "# A board that\n# was made up. Not for sale.\n" + BOARD.lstrip()

    assert write(tmp_path, "board", text).profile("device", "board").about == (
        "A board that was made up"
    )
    assert write(tmp_path, "board", BOARD).profile("device", "board").about == ""


def test_every_shipped_file_is_listed() -> None:
    """No file of the folder is of an unknown kind."""
    assert len(SHIPPED) == len(list(shipped_folder().glob("*.yaml")))


@pytest.mark.parametrize(
    ("name", "board_w"),
    [
        ("rpi_zero_2w", 2.1),
        ("rpi_3b_plus", 5.6),
        ("rpi_4b", 7.2),
        ("rpi_5", 12.7),
        ("jetson_nano", 10.0),
        ("minipc_n100", 25.0),
        ("laptop_ryzen_ai340", 41.6),
        ("macmini_m4", 39.6),
    ],
)
def test_boards_draw_their_measured_power(name: str, board_w: float) -> None:
    """Idle power and active power at the highest clock add up to the board's measured watts."""
    device = Catalogue().device(name)
    cost = device.processor.compute(1e9, device.processor.frequency_max_hz)

    assert device.power_idle_w + cost.active_j / cost.duration_s == pytest.approx(
        board_w, rel=0.005
    )


@pytest.mark.parametrize(
    ("name", "chip_w"), [("phone_high_sd865", 6.4), ("phone_flagship_sd8plus_gen1", 7.8)]
)
def test_phones_draw_about_their_measured_power(name: str, chip_w: float) -> None:
    """A few prime cores represent all eight: within 10 % of the sum over the eight."""
    device = Catalogue().device(name)
    cost = device.processor.compute(1e9, device.processor.frequency_max_hz)

    assert float(cost.active_j / cost.duration_s) == pytest.approx(chip_w, rel=0.1)


def test_modes_of_a_shipped_accelerator() -> None:
    """A Jetson Nano in its 5W mode: 640 of 921.6 MHz at 5 W."""
    device = Catalogue().device("jetson_nano")
    eco = device.in_mode("5W")

    assert eco.name == "jetson_nano.5W"
    ratio = eco.processor.compute(eco.processor.flops_cycles(1e9), 6.4e8).duration_s
    ratio /= device.processor.compute(device.processor.flops_cycles(1e9), 9.216e8).duration_s
    assert float(ratio) == pytest.approx(921.6 / 640)
    assert device.in_mode("MaxN").processor.power_active_w == 10.0
    with pytest.raises(ValueError, match="found 'MaxN', accepted: null, rpi_4b has no modes"):
        Catalogue().device("rpi_4b").in_mode("MaxN")


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
        (
            "power_idle_w: 1",
            "",
            "yaml:14: unverified: found power_idle_w, but the file has no such",
        ),
        (
            "power_idle_w: 1",
            "power_idel_w: 1",
            "yaml:4: power_idel_w: unknown key, did you mean 'po",
        ),
        ("kind: device", "kind: device\nname: b", "yaml:3: name: unknown key; accepted: battery_j"),
        ("[power_idle_w]", "[[power_idle_w]]", "yaml:14: unverified: found ['power_idle_w'], but"),
        ("[power_idle_w]", "power_idle_w", "unverified: found 'power_idle_w', accepted: a list"),
        (
            "power_idle_w: 1",
            "power_idle_w: one",
            "power_idle_w: found 'one', accepted: a number >= 0",
        ),
        (
            "power_idle_w: 1",
            "power_idle_w: -1",
            "yaml:4: power_idle_w: found -1, accepted: a number >= 0",
        ),
        ("memory_bytes: 1e9", "", "memory_bytes: missing"),
        ("memory_bytes: 1e9", "memory: 1e9", "memory: unknown key, did you mean 'memory_bytes'?"),
        ("  cores: 4", "  cores: four", "yaml:8: processor.cores: found 'four', accepted"),
        ("  cores: 4", "  core: 4", "processor.core: unknown key, did you mean 'cores'?"),
        ("  name: cpu", "  name: cpus", "processor.name: unknown processor 'cpus', did you mean"),
        ("  name: cpu", "", "processor: found a section without a name, accepted: a section with"),
        ("1e8", "1e10", "processor.frequency_min_hz: found 1e+10"),
        (
            "kind: device",
            "kind: devices",
            "kind: found 'devices', accepted: device, server, link, region",
        ),
        ("kind: device", "", "kind: found None"),
        (
            "  cores: 4",
            "  cores: 4\n  cores: 5",
            "board.yaml:9: not valid YAML: cores: given twice",
        ),
        ("  cores: 4", "  cores: [", "board.yaml:10: not valid YAML: expected"),
        ("processor.kappa: measured", "processor.kapa: x", "did you mean 'processor.kappa'?"),
        ("sources: {", "sources: [{", "board.yaml:14: not valid YAML: expected"),
        (
            "{processor.kappa: measured}",
            "[x]",
            "yaml:13: sources: found ['x'], accepted: a mapping",
        ),
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


@pytest.mark.parametrize("law", ["power_active_w: 6", "kappa: 7e-29"])
def test_a_machines_idle_power_is_told_by_its_own_key(tmp_path: Path, law: str) -> None:
    """Its processor, which takes it beside a wattmeter's figure, has no such key in the file."""
    text = BOARD.replace("kappa: 7e-29", law).replace("sources: {processor.kappa: measured}", "")
    for found in ("-2", "two", "[2]"):
        catalogue = write(
            tmp_path, "board", text.replace("power_idle_w: 1", f"power_idle_w: {found}")
        )
        with pytest.raises(CatalogueError, match=r"yaml:4: power_idle_w: found .*a number >= 0 \("):
            catalogue.device("board")
    bare = text.replace("power_idle_w: 1", "").replace("unverified: [power_idle_w]", "")
    with pytest.raises(CatalogueError, match=r"yaml: power_idle_w: missing, accepted: a number"):
        write(tmp_path, "board", bare).device("board")


def test_a_file_with_another_ending_is_told(tmp_path: Path) -> None:
    """A profile that is called board.yml is found by nobody."""
    (tmp_path / "board.yml").write_text(BOARD)

    with pytest.raises(CatalogueError, match=r"board\.yml: found the ending \.yml, accepted: \.ya"):
        Catalogue([tmp_path]).device("board")


def test_a_server_says_what_an_aggregation_takes_at_least(tmp_path: Path) -> None:
    """No figure of a machine is a default of the code, which nobody would count as an estimate."""
    text = (shipped_folder() / "edge_xeon_d.yaml").read_text(encoding="utf-8")
    bare = "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("overhead_s")
    )

    with pytest.raises(CatalogueError, match=r"overhead_s: missing, accepted: a number >= 0"):
        write(tmp_path, "bare", bare.replace(" overhead_s,", "")).server("bare")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"kind: " + b"[" * 5000, "nested without end, accepted: a few levels"),
        (BOARD.encode("utf-16"), "not valid YAML"),
        (b"kind: \0", "not valid YAML"),
        (b"kind: &a [*a]", r"board\.yaml:1: not valid YAML: found the alias \*a"),
        (b"kind: " + b"9" * 5000, "not valid YAML: Exceeds the limit"),
        (b"kind: !!int x", "not valid YAML: invalid literal"),
        (b"kind: !!bool x", "not valid YAML"),
        (b"kind: 2021-99-99", "not valid YAML: month must be"),
        (b"kind: " + b"x" * 5000, "kind: found 'x{76}[.]{3}, accepted"),
        (
            BOARD.replace("power_idle_w: 1", "power_idle_w: 1" + "0" * 400).encode(),
            "power_idle_w: ",
        ),
        (BOARD.replace("cores: 4", "cores: 0x" + "f" * 5000).encode(), r"board\.yaml:8: processor"),
    ],
)
def test_files_that_are_no_profile(tmp_path: Path, content: bytes, message: str) -> None:
    """Depth, encodings, aliases, numbers of hundreds of digits: one short line with the file."""
    (tmp_path / "board.yaml").write_bytes(content)

    with pytest.raises(CatalogueError, match=message) as caught:
        Catalogue([tmp_path]).device("board")

    assert str(tmp_path / "board.yaml") in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    """It cannot be read, which is said with its name."""
    (tmp_path / "board.yaml").mkdir()

    with pytest.raises(CatalogueError, match=r"board\.yaml: an unreadable file"):
        Catalogue([tmp_path]).device("board")


def test_a_byte_order_mark_is_no_part_of_a_profile(tmp_path: Path) -> None:
    """Editors that write one do not break the file."""
    (tmp_path / "board.yaml").write_text("\ufeff# A board.\n" + BOARD.lstrip(), encoding="utf-8")

    assert Catalogue([tmp_path]).profile("device", "board").about == "A board"


@pytest.mark.parametrize("text", ["", "- 1\n", "kind: link\nlink: {name: fixed_rate}\nmtu: 3\n"])
def test_wrong_link_files(tmp_path: Path, text: str) -> None:
    """An empty file, a list and a stray key are refused."""
    catalogue = write(tmp_path, "cable", text)

    with pytest.raises(CatalogueError, match=r"cable\.yaml:(3:)? "):
        catalogue.link("cable")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("  kappa: 7e-29", "kappa, power_table or power_active_w"),
        ("  cycles_per_example: 1e7", "cycles_per_"),
    ],
)
def test_missing_cost_names_file_and_field(tmp_path: Path, line: str, field: str) -> None:
    """A device without the figures for time or energy is refused, never priced at zero."""
    text = BOARD.replace(line, "").replace("sources: {processor.kappa: measured}", "")
    catalogue = write(tmp_path, "board", text)

    with pytest.raises(MissingCost, match=rf"board\.yaml:6: processor: no figure for {field}"):
        catalogue.device("board")


PLUG_IN = '''
from dataclasses import dataclass

from simfl.system.cost import ComputeCost
from simfl.system.processor import Processor


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
