"""A federated testbed, predicted and measured: fills docs/testbed.md and its recorded results.

    python analysis/testbed.py            calibrate, predict, write results and page
    python analysis/testbed.py --page     the page from the recorded results
    python analysis/testbed.py --check    write nothing; exit status 1 if the page is stale

Ten Jetson boards trained ResNet-18 with Flower, and recorded time and power
(analysis/published/jetson_testbed.csv has the source). The rounds of one local epoch with ten
clients calibrate a profile; everything else is predicted. A few minutes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import brentq

import simfl
from simfl.calibration.calibrate import calibrate
from simfl.common.files import replacing
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import STYLE
from simfl.study.hardware import hardware_intervals
from validated.families import PUBLISHED, ROOT
from validated.page import markdown

RESULTS = ROOT / "analysis" / "results" / "testbed"
PAGE = ROOT / "docs" / "testbed.md"
PICTURE = PAGE.with_suffix(".png")
BLOCK = re.compile(r"(<!-- testbed (\w+) -->\n?)(.*?)(<!-- end -->)", re.S)
SELECTION = f"{Path(__file__).parent / 'validated' / 'one_per_board.py'}:OnePerBoard"

BASE = "jetson_agx_xavier"
DEVICE = "board"
BOARDS = 10
BATCH = 64
ROUNDS = {True: 2, False: 60}
"""With all clients in every round, all rounds are alike."""
DRAWS = 39
"""With so many, the second from each end hold 90 % of the machines."""
SETTINGS = [(10, 5), (20, 1), (30, 1), (50, 1), (70, 1), (100, 1)]
"""What is predicted: clients, and their local epochs."""

LINK_BPS = 1e9 * 1448 / 1538
"""Gigabit Ethernet less the headers of TCP, IP and Ethernet, and the gap between frames."""
PAYLOAD = '"derived: 1 Gbit/s * 1448 / 1538, TCP payload and whole length of an Ethernet frame"'
LINK = f"""kind: link
link:
  name: fixed_rate
  uplink_bps: {LINK_BPS:.6g}
  downlink_bps: {LINK_BPS:.6g}
  rtt_s: 0.0003
  power_transmit_w: 0             # in the boards' idle power
  power_receive_w: 0
  power_idle_w: 0
sources:
  link.uplink_bps: {PAYLOAD}
  link.downlink_bps: {PAYLOAD}
  link.rtt_s: "assumed: a switch"
  link.power_transmit_w: "measured with the boards' idle power"
  link.power_receive_w: "measured with the boards' idle power"
  link.power_idle_w: "measured with the boards' idle power"
"""


def measured() -> pd.DataFrame:
    """The testbed's figures: clients, epochs, who, quantity, value, deviation, runs."""
    return pd.read_csv(PUBLISHED / "jetson_testbed.csv", comment="#", keep_default_na=False)


def figure(quantity: str, clients: int = BOARDS, epochs: int = 1, who: str = "") -> float:
    """One measured figure."""
    rows = measured().query(
        "clients == @clients and epochs == @epochs and who == @who and quantity == @quantity"
    )
    return float(rows["value"].item())


def client_watts(epochs: int) -> np.ndarray:
    """The mean power of each of ten boards with one client."""
    return np.array([figure("watts", epochs=epochs, who=f"client-{k}") for k in range(BOARDS)])


def examples(clients: int) -> list[int]:
    """Training examples of each client."""
    rows = pd.read_csv(PUBLISHED / "jetson_testbed_examples.csv", comment="#")
    return rows.loc[rows["clients"] == clients, "examples"].tolist()


def scenario(clients: int, epochs: int, profiles: Path, device: str = DEVICE) -> dict[str, Any]:
    """The experiment with so many clients, as a scenario without training."""
    everybody = clients == BOARDS
    return {
        "name": f"testbed_{clients}_clients_{epochs}_epochs",
        "data": {
            "name": "sizes",
            "examples_per_client": examples(clients),
            "input_shape": [3, 32, 32],
        },
        "model": {"name": "torchvision", "architecture": "resnet18"},
        "population": {
            "name": "catalogue",
            "clients": clients,
            "profiles": [str(profiles)],
            "cloud_server": "server_board",
            "groups": [{"device": device, "link": "gigabit"}],
            # The server's interface, through which everything passes.
            "access_sharing": {"name": "processor_sharing", "capacity_bps": LINK_BPS},
        },
        "algorithm": {"name": "none", "local": {"epochs": epochs, "batch_size": BATCH}},
        "protocol": "synchronous",
        "decisions": {"selection": "all" if everybody else {"name": SELECTION}},
        "stop": {"versions": ROUNDS[everybody]},
    }


def simulated(content: dict[str, Any], folder: Path) -> dict[str, float]:
    """A mean round: its seconds, those until the last update, and the joules of board and server.

    A board that holds several clients is idle while none of them trains.
    """
    run = simfl.run(content, folder, overwrite=True)
    rounds, seconds = len(run.rounds), run.rounds["time_s"].iloc[-1]
    began = np.concatenate([[0.0], run.rounds["time_s"][:-1]])
    closed = run.events.query("kind == 'cloud_aggregate'")["start_s"].to_numpy()
    idle_w = run.clients["power_idle_w"].iloc[0]
    board_j = run.rounds["client_active_j"].iloc[-1] / BOARDS + idle_w * seconds
    return {
        "fit_s": float((closed - began).mean()),
        "round_s": seconds / rounds,
        "board_j": board_j / rounds,
        "server_j": run.rounds["server_energy_j"].iloc[-1] / rounds,
    }


def calibrated(folder: Path) -> pd.DataFrame:
    """Writes the profiles that rounds of one epoch give into a folder; returns what was calibrated.

    Seconds and watts come apart because ten clients have ten amounts of data: a board's joules in a
    round are its idle power times the round, and so much for every example.
    """
    sizes, round_s, fit_s = np.array(examples(BOARDS)), figure("round_s"), figure("fit_s")
    joules = client_watts(1) * round_s
    per_example_j, idle_round_j = np.polyfit(sizes, joules, 1)
    idle_w = idle_round_j / round_s
    rest_s = round_s - fit_s
    server_w = idle_w + (figure("watts", who="server") - idle_w) * round_s / rest_s
    (folder / "gigabit.yaml").write_text(LINK, encoding="utf-8")
    (folder / "server_board.yaml").write_text(
        server_profile(idle_w, rest_s, server_w), encoding="utf-8"
    )

    def too_long(seconds_per_example: float) -> float:
        (folder / "timed.yaml").write_text(
            timed_profile(seconds_per_example, idle_w, 2 * idle_w), encoding="utf-8"
        )
        return simulated(scenario(BOARDS, 1, folder, "timed"), folder / "run")["fit_s"] - fit_s

    example_s = float(brentq(too_long, 1e-4, 1e-2, xtol=1e-7))
    training_w = idle_w + per_example_j / example_s
    rows = pd.DataFrame(
        [
            {
                "device": DEVICE,
                "model": "resnet18",
                "input_shape": "3x32x32",
                "outputs": 10,
                "batch_size": BATCH,
                "examples": sizes.max(),
                "seconds": example_s * sizes.max(),
                "trainings": 1,
                "watts": training_w,
            },
            {"device": DEVICE, "state": "idle", "watts": idle_w},
        ]
    )
    rows.to_csv(folder / "rows.csv", index=False)
    (twin,) = calibrate(folder / "rows.csv", [BASE], "gigabit", [folder], "resnet18").twins
    (folder / f"{DEVICE}.yaml").write_text(twin.text(), encoding="utf-8")
    (fixed,) = [one for one in twin.figures if one.key == "processor.seconds_per_training"]
    figures = {
        "example_s": example_s,
        "training_w": training_w,
        "idle_w": idle_w,
        "rest_s": rest_s,
        "server_w": server_w,
        "training_s": fixed.value,
        "training_low_s": fixed.interval[0],
        "training_high_s": fixed.interval[1],
    }
    return pd.DataFrame({"figure": [*figures], "value": [*figures.values()]})


def predicted(folder: Path) -> pd.DataFrame:
    """Every setting on the calibrated board and on drawn ones, beside what was measured."""
    found = []
    for clients, epochs in SETTINGS:
        content = scenario(clients, epochs, folder)
        plain = pd.DataFrame([simulated(content, folder / "run")])
        drawn = pd.DataFrame(
            simulated(_with_draw(content, draw), folder / "run") for draw in range(DRAWS)
        )
        table, draws = (one.assign(point=0, seed=0, status="completed") for one in (plain, drawn))
        for quantity, value in _measured_round(clients, epochs).items():
            ends = hardware_intervals(table, draws, quantity).iloc[0]
            found.append(
                {
                    "clients": clients,
                    "epochs": epochs,
                    "quantity": quantity,
                    "measured": value,
                    "predicted": plain[quantity].item(),
                    "low": ends["low"],
                    "high": ends["high"],
                }
            )
    return pd.DataFrame(found)


def of_two_rounds(folder: Path) -> pd.DataFrame:
    """More clients, from rounds of one and of five epochs: what they share is not training.

    That time, less the messages, is the fixed time of a training, in which a board draws idle
    power.
    """
    sizes = np.array(examples(BOARDS))
    example_s = (figure("fit_s", epochs=5) - figure("fit_s")) / 4 / sizes.max()
    seconds, joules, trained = [], [], []
    for epochs in (1, 5):
        round_s = figure("round_s", epochs=epochs)
        seconds += [round_s] * BOARDS
        joules += [*(client_watts(epochs) * round_s)]
        trained += [*(epochs * sizes)]
    (idle_w, per_example_j), *_ = np.linalg.lstsq(
        np.column_stack([seconds, trained]), np.array(joules)
    )
    active_w = idle_w + per_example_j / example_s
    profile = folder / "timed.yaml"
    profile.write_text(timed_profile(example_s, idle_w, active_w), encoding="utf-8")
    known = simulated(scenario(BOARDS, 1, folder, "timed"), folder / "run")
    fixed_s = figure("fit_s") - known["fit_s"]
    profile.write_text(timed_profile(example_s, idle_w, active_w, fixed_s), encoding="utf-8")
    rest_s = figure("round_s") - figure("fit_s")
    server_j = figure("watts", who="server") * figure("round_s")
    server_w = idle_w + (server_j - idle_w * figure("round_s")) / rest_s
    (folder / "server_board.yaml").write_text(
        server_profile(idle_w, rest_s, server_w), encoding="utf-8"
    )
    found = []
    for clients, epochs in SETTINGS:
        if clients > BOARDS:
            content = scenario(clients, epochs, folder, "timed")
            its = simulated(content, folder / "run")
            for quantity, value in _measured_round(clients, epochs).items():
                row = {"clients": clients, "quantity": quantity, "measured": value}
                found.append(row | {"predicted": its[quantity]})
    return pd.DataFrame(found)


def of_each_board(folder: Path) -> pd.DataFrame:
    """The joules of each of ten boards in a round of five epochs."""
    run = simfl.run(scenario(BOARDS, 5, folder), folder / "run", overwrite=True)
    joules = run.clients["energy_j"].to_numpy() / len(run.rounds)
    return pd.DataFrame(
        {
            "examples": examples(BOARDS),
            "measured": client_watts(5) * figure("round_s", epochs=5),
            "predicted": joules,
        }
    )


def uncalibrated(folder: Path) -> pd.DataFrame:
    """What the network and the catalogue alone predict of a round of one epoch."""
    content = scenario(BOARDS, 1, folder, BASE)
    fit_s = simulated(content, folder / "run")["fit_s"]
    bits = 8 * simfl.load_run(folder / "run").events.query("kind == 'download'")["bytes"].iloc[0]
    return pd.DataFrame(
        {
            "quantity": ["ten models down", "training, by the catalogue"],
            "measured": [figure("evaluate_s"), figure("fit_s")],
            "predicted": [BOARDS * bits / LINK_BPS, fit_s],
        }
    )


def _measured_round(clients: int, epochs: int) -> dict[str, float]:
    round_s = figure("round_s", clients, epochs)
    server_j = figure("watts", clients, epochs, "server") * round_s
    if clients > BOARDS:
        board_w = figure("watts", clients, epochs, "boards")
        return {"round_s": round_s, "board_j": board_w * round_s, "server_j": server_j}
    return {
        "fit_s": figure("fit_s", clients, epochs),
        "round_s": round_s,
        "board_j": float(client_watts(epochs).mean()) * round_s,
        "server_j": server_j,
    }


def _with_draw(content: dict[str, Any], draw: int) -> dict[str, Any]:
    return content | {"population": content["population"] | {"hardware_draw": draw}}


def timed_profile(example_s: float, idle_w: float, active_w: float, training_s: float = 0.0) -> str:
    """A board whose training takes so long per example, and in all, whatever the model."""
    figures = {
        "seconds_per_example": example_s,
        "seconds_per_training": training_s,
        "stall_utilization": 0.0,
        "frequency_min_hz": 1e8,
        "frequency_max_hz": 9e8,
        "power_active_w": active_w,
        "power_idle_w": idle_w,
    }
    return _profile("device", {"device_class": "edge_gpu"}, idle_w, figures)


def server_profile(idle_w: float, rest_s: float, active_w: float) -> str:
    """A board as the server, which takes `rest_s` at `active_w` between rounds."""
    figures = {
        "flops_per_s": 9.22e11,
        "efficiency": 0.25,
        "frequency_min_hz": 1e8,
        "frequency_max_hz": 9e8,
        "power_active_w": active_w,
        "power_idle_w": idle_w,
    }
    own = {"memory_bandwidth_bytes_per_s": 1.37e11, "overhead_s": rest_s}
    return _profile("server", own, idle_w, figures)


def _profile(kind: str, own: dict[str, Any], idle_w: float, processor: dict[str, float]) -> str:
    """The text of a profile whose figures count as measured, so that none is drawn."""
    figures = own | {"power_idle_w": idle_w, "memory_bytes": 32_000_000_000}
    lines = [f"kind: {kind}", *(f"{key}: {_number(value)}" for key, value in figures.items())]
    lines += ["processor:", "  name: accelerator"]
    lines += [f"  {key}: {_number(value)}" for key, value in processor.items()]
    paths = [key for key in figures if key != "device_class"]
    paths += [f"processor.{key}" for key in processor]
    lines += ["sources:", *(f'  {path}: "rounds of one epoch"' for path in paths)]
    return "\n".join(lines) + "\n"


def _number(value: object) -> object:
    return f"{value:.9g}" if isinstance(value, float) else value


NAMES = {
    "fit_s": "until the last update",
    "round_s": "a round",
    "board_j": "a client board, per round",
    "server_j": "the server board, per round",
}
UNITS = {"fit_s": "s", "round_s": "s", "board_j": "J", "server_j": "J"}


def filled(page: str) -> str:
    """The text of the page with its blocks made anew from the recorded results."""
    tables: dict[str, Callable[[], pd.DataFrame]] = {
        "calibrated": _calibrated_table,
        "predicted": _predicted_table,
        "boards": _boards_table,
        "two_rounds": _two_rounds_table,
        "before": _before_table,
    }
    values = single_figures()

    def made(block: re.Match[str]) -> str:
        opening, name, _, closing = block.groups()
        if name in tables:
            return f"{opening}{markdown(tables[name]())}\n{closing}"
        return f"{opening}{values[name]}{closing}"

    return BLOCK.sub(made, page)


def single_figures() -> dict[str, str]:
    """Single figures within the page's sentences."""
    of_rounds, boards = read("predicted"), read("boards")
    off = (of_rounds["predicted"] / of_rounds["measured"] - 1).abs()
    seconds = of_rounds["quantity"].isin(["fit_s", "round_s"])
    held = of_rounds["measured"].between(of_rounds["low"], of_rounds["high"])

    own = (boards["predicted"] / boards["measured"] - 1).abs()
    width = (of_rounds["high"] - of_rounds["low"]) / of_rounds["predicted"]
    correlation = min(np.corrcoef(client_watts(one), examples(BOARDS))[0, 1] for one in (1, 5))
    epoch_s = (figure("fit_s", epochs=5) - figure("fit_s")) / 4
    fixed_s = figure("fit_s") - epoch_s
    calibration = read("calibrated").set_index("figure")["value"]
    two = read("two_rounds")
    two_off = (two["predicted"] / two["measured"] - 1).abs().max()
    messages_s = figure("fit_s") - calibration["example_s"] * max(examples(BOARDS))
    return {
        "worst_seconds": f"{off[seconds].max():.0%}",
        "worst_joules": f"{off[~seconds].max():.0%}",
        "held": f"{held.sum()} of {len(held)}",
        "widest": f"{width.max():.0%}",
        "worst_board": f"{own.max():.0%}",
        "median_width": f"{width.median():.0%}",
        "two_rounds_worst": f"{two_off:.0%}",
        "correlation": f"{correlation:.2f}",
        "epoch_s": f"{epoch_s:.2f} s",
        "fixed_s": f"{fixed_s:.2f} s",
        "messages_s": f"{messages_s:.2f} s",
        "training_s": "{training_s:.2g} s ({training_low_s:.2g} to {training_high_s:.2g} s)".format(
            **calibration
        ),
        "step_s": f"{BATCH * calibration['example_s']:.2f} s",
    }


def _calibrated_table() -> pd.DataFrame:
    found = read("calibrated").set_index("figure")["value"]
    rows = [
        ("training, of an example", f"{found['example_s'] * 1e3:.3f} ms"),
        ("a client's board while it trains", f"{found['training_w']:.1f} W"),
        ("a board while it waits", f"{found['idle_w']:.2f} W"),
        ("the server, from the last update to the next round", f"{found['rest_s']:.2f} s"),
        ("the server's board meanwhile", f"{found['server_w']:.1f} W"),
    ]
    return pd.DataFrame(rows, columns=["calibrated with one epoch and ten clients", ""])


def _predicted_table() -> pd.DataFrame:
    rows = []
    for one in read("predicted").itertuples():
        unit = UNITS[one.quantity]
        rows.append(
            {
                "clients": one.clients,
                "epochs": one.epochs,
                "": NAMES[one.quantity],
                "measured": f"{one.measured:.4g} {unit}",
                "predicted": f"{one.predicted:.4g} {unit}",
                "ratio": f"{one.predicted / one.measured:.2f}",
                "90 % interval": f"{one.low:.4g} to {one.high:.4g} {unit}",
                "in it": "yes" if one.low <= one.measured <= one.high else "no",
            }
        )
    return pd.DataFrame(rows)


def _two_rounds_table() -> pd.DataFrame:
    rows = []
    for clients, own in read("two_rounds").groupby("clients"):
        row = {"clients": clients}
        for one in own.itertuples():
            unit = UNITS[one.quantity]
            said = f"{one.predicted:.4g} {unit} ({one.predicted / one.measured:.2f})"
            row |= {NAMES[one.quantity]: f"{one.measured:.4g}, {said}"}
        rows.append(row)
    return pd.DataFrame(rows)


def _boards_table() -> pd.DataFrame:
    rows = [
        {
            "board": place,
            "examples": one.examples,
            "measured": f"{one.measured:.0f} J",
            "predicted": f"{one.predicted:.0f} J",
            "ratio": f"{one.predicted / one.measured:.2f}",
        }
        for place, one in enumerate(read("boards").itertuples())
    ]
    return pd.DataFrame(rows)


def _before_table() -> pd.DataFrame:
    rows = [
        {
            "": one.quantity,
            "measured": f"{one.measured:.2f} s",
            "predicted": f"{one.predicted:.2f} s",
            "ratio": f"{one.predicted / one.measured:.2f}",
        }
        for one in read("uncalibrated").itertuples()
    ]
    return pd.DataFrame(rows)


def read(name: str) -> pd.DataFrame:
    """A recorded table."""
    return pd.read_csv(RESULTS / f"{name}.csv")


def save_picture(path: Path = PICTURE) -> None:
    """Write a picture of all predictions over measurements, with their intervals."""
    found = read("predicted")
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(STYLE):
        drawing = Figure(figsize=(7, 3.6), layout="constrained")
        axes = drawing.subplots()
        for place, (quantity, own) in enumerate(found.groupby("quantity", sort=False)):
            ratio = own["predicted"] / own["measured"]
            ends = [
                ratio - own["low"] / own["measured"],
                own["high"] / own["measured"] - ratio,
            ]
            at = [SETTINGS.index(one) + 0.15 * place for one in _settings(own)]
            axes.errorbar(
                at, ratio, ends, fmt="o", capsize=2, color=COLOURS[place], label=NAMES[quantity]
            )
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_xticks(
            [place + 0.2 for place in range(len(SETTINGS))],
            [
                f"{clients} clients\n{epochs} epoch{'s' * (epochs > 1)}"
                for clients, epochs in SETTINGS
            ],
        )
        axes.set_ylabel("predicted / measured")
        drawing.legend(loc="outside upper center", ncols=4, fontsize="small")
        drawing.savefig(file, format="png", dpi=90)


def _settings(table: pd.DataFrame) -> list[tuple[int, int]]:
    return list(zip(table["clients"], table["epochs"], strict=True))


def record(folder: Path) -> None:
    """Computes all tables and writes them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    tables = {
        "calibrated": calibrated(folder),
        "uncalibrated": uncalibrated(folder),
        "boards": of_each_board(folder),
        "predicted": predicted(folder),
        "two_rounds": of_two_rounds(folder),
    }
    for name, table in tables.items():
        with replacing(RESULTS / f"{name}.csv") as partial:
            table.to_csv(partial, index=False, float_format="%.6g", lineterminator="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or say whether it is out of date."""
    parser = argparse.ArgumentParser(description="Fill docs/testbed.md.")
    parser.add_argument("--page", action="store_true", help="from the recorded results")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(arguments)
    if not (asked.page or asked.check):
        with tempfile.TemporaryDirectory() as folder:
            record(Path(folder))
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if asked.check:
        print("docs/testbed.md: " + ("as it should be" if after == before else "out of date"))
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    save_picture()
    print(markdown(_predicted_table()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
