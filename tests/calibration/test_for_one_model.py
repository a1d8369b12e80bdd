"""Profiles for one measured model: its own seconds, narrower intervals, told from others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.calibration.calibrate import Calibration, calibrate
from simfl.cli.app import app
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.accelerator import Accelerator
from simfl.system.catalogue import Catalogue
from tests.calibration.planted import file_of

HEAD = "device,model,input_shape,outputs,batch_size,batches,seconds"
ROWS = [
    "my_pi,{name: cnn; channels: [8]},1x8x8,10,16,100,0.9",
    "my_pi,{name: cnn; channels: [8]},1x8x8,10,32,100,1.1",
    "my_pi,linear,1x8x8,10,32,100,0.6",
]
CNN = "{name: cnn, channels: [8]}"


def calibrated(folder: Path, for_model: str | None = None) -> Calibration:
    """A base with the convolutional network and the linear model measured."""
    rows = [f"{row.replace('{', chr(34) + '{').replace('}', '}' + chr(34))}" for row in ROWS]
    path = file_of(folder, [row.replace(";", ",") for row in rows], HEAD)
    return calibrate(path, ["rpi_4b"], for_model=for_model)


def relative_ends(found: Calibration, row: int) -> tuple[float, float]:
    """Where 90 % of the drawn machines have a row, over its measured seconds."""
    fit, (twin,) = found.computing, found.twins
    assert fit is not None and twin.errors is not None
    fit = fit if twin.calibrated is None or twin.calibrated.only is None else fit.of_model(CNN)
    seconds = np.exp(fit.fit.draws[:, 0]) @ fit.rows.amounts[row] * np.exp(twin.errors)
    low, high = np.quantile(seconds, (0.05, 0.95)) / fit.rows.measured[row]
    return float(low), float(high)


def test_the_model_takes_what_was_measured(tmp_path: Path) -> None:
    """By the profile's own figures in the middle of its rows, and on drawn machines around it."""
    found, anything = calibrated(tmp_path, CNN), calibrated(tmp_path)

    fit, (twin,) = found.computing, found.twins
    assert fit is not None
    value = {one.key: one.value for one in twin.figures}
    times = [
        value[term.key] if term.per_unit else 1.0 / value[term.key] for term in fit.fit.prior.terms
    ]
    said = fit.rows.amounts[:2] @ np.array(times) / fit.rows.measured[:2]
    assert np.exp(np.log(said).mean()) == pytest.approx(1.0, rel=0.06)
    for row in (0, 1):
        (low, high), wide = relative_ends(found, row), relative_ends(anything, row)
        assert wide[0] < low < 1.0 < high < wide[1]
        assert np.log(high / low) < 0.7 * np.log(wide[1] / wide[0])


def test_work_that_the_model_lacks_is_not_missed(tmp_path: Path) -> None:
    """Rows of other models may have told it; the profile says that it does not matter."""
    found, anything = calibrated(tmp_path, "linear"), calibrated(tmp_path)

    (twin,) = found.twins
    origins = {one.key: one.origin for one in twin.figures}
    assert origins["processor.rates.convolution"] == "not used by linear"
    assert not any("rates.convolution" in one for one in found.warnings)
    assert any("rates.recurrent" in one for one in anything.warnings)


def test_another_model_is_warned_of(tmp_path: Path) -> None:
    """The profile says which model it is for; one with other operations is told in a run."""
    (twin,) = calibrated(tmp_path, CNN).twins
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_pi.yaml").write_text(twin.text(), encoding="utf-8")

    profile = Catalogue([tmp_path / "mine"]).profile("device", "my_pi")
    assert profile.calibrated is not None and profile.calibrated.only == CNN
    warned = {}
    for model in ({"name": "cnn", "channels": [8]}, "linear"):
        scenario = {
            "data": {"name": "sizes", "examples_per_client": 32, "input_shape": [1, 8, 8]},
            "model": model,
            "population": {
                "name": "catalogue",
                "clients": 2,
                "profiles": [str(tmp_path / "mine")],
                "groups": [{"device": "my_pi", "link": "wifi5_ac"}],
            },
            "algorithm": {"name": "none", "local": {"batch_size": 32, "epochs": 1}},
            "protocol": "synchronous",
            "stop": {"versions": 1},
        }
        run = simfl.run(scenario, tmp_path / "run", overwrite=True)
        texts = [one["message"] for one in run.manifest["warnings"]]
        warned[str(model)] = any("times are for {name: cnn" in text for text in texts)
    assert list(warned.values()) == [False, True]


def test_a_model_that_no_row_has(tmp_path: Path) -> None:
    """One line that names those there are; from the command with exit code 2."""
    with pytest.raises(ScenarioError, match=r"--for: found mlp, accepted: a model that rows of"):
        calibrated(tmp_path, "mlp")

    path = next(tmp_path.glob("*.csv"))
    result = CliRunner().invoke(
        app, ["calibrate", str(path), "--base", "rpi_4b", "--for", "mlp", "--out", str(tmp_path)]
    )
    assert result.exit_code == 2 and "my_pi train: {name: cnn, channels: [8]}" in result.stderr


def test_watts_are_those_of_the_model(tmp_path: Path) -> None:
    """Other models' watts move nothing; without any of the model's own, all of them count."""

    def active(rows: list[str], for_model: str | None) -> tuple[float, float]:
        path = file_of(tmp_path, [f"{row}" for row in rows], f"{HEAD},watts")
        (twin,) = calibrate(path, ["rpi_4b"], for_model=for_model).twins
        (one,) = (one for one in twin.figures if one.key == "processor.power_active_w")
        low, high = one.interval
        return one.value, high / low

    linear, mlp = (
        f"my_pi,{model},1x8x8,10,32,100,{seconds}"
        for model, seconds in (("linear", 0.6), ("'{name: mlp, hidden: [64]}'", 0.9))
    )
    mlp = mlp.replace("'", '"')
    value, width = active([f"{linear},4.0", f"{mlp},8.0"], "linear")
    either, wide = active([f"{linear},4.0", f"{mlp},8.0"], None)
    without, unknown = active([f"{linear},", f"{mlp},8.0"], "linear")

    assert value == pytest.approx(4.0, rel=0.01) and either > 4.5
    assert without == pytest.approx(8.0, rel=0.05)
    assert width < 1.6 < 1.8 < min(wide, unknown)


def test_a_single_model_is_not_left_out(tmp_path: Path) -> None:
    """No table without rows is printed, and the reason is."""
    path = file_of(tmp_path, [ROWS[2]], HEAD)
    result = CliRunner().invoke(
        app, ["calibrate", str(path), "--base", "rpi_4b", "--out", str(tmp_path / "mine")]
    )

    assert result.exit_code == 0, result.output
    assert "One model alone" in result.output
    assert "left out in turn" not in result.output


@pytest.mark.parametrize("text", ["{name: cnn", "", "nosuch: : x"])
def test_text_that_is_no_model_is_refused(text: str, tmp_path: Path) -> None:
    """As other bad input, without a traceback."""
    with pytest.raises(ScenarioError) as caught:
        calibrated(tmp_path, text)

    assert "--for: found" in str(caught.value)
    assert "accepted: a model's name, or {name: mlp, hidden: [200]}" in str(caught.value)


BOARD = "device,model,input_shape,outputs,batch_size,examples,seconds,trainings,watts,state"
IDLE = "board,,,,,,,,1.5,idle"


def watts_of(folder: Path, rows: list[str], base: str, model: str | None = None) -> Accelerator:
    """The calibrated accelerator."""
    folder.mkdir()
    path = file_of(folder, [*rows, IDLE], BOARD)
    (twin,) = calibrate(path, [base], folders=[folder.parent], for_model=model).twins
    (folder / "board.yaml").write_text(twin.text(), encoding="utf-8")
    processor = Catalogue([folder]).device("board").processor
    assert isinstance(processor, Accelerator)
    return processor


def test_watts_of_short_and_long_trainings_are_told_apart(tmp_path: Path) -> None:
    """As without a single model: what it draws while it waits is known of this one, too."""
    rows = [
        f"board,resnet18,3x32x32,10,16,{examples},{seconds},1,{watts},train"
        for examples, seconds, watts in ((16, 4.9, 2), (16, 4.8, 2), (320, 12.4, 6), (3200, 80, 8))
    ]
    for number, model in enumerate([None, "resnet18"]):
        board = watts_of(tmp_path / f"{number}", rows, "jetson_nano", model)

        assert board.stall_utilization < 0.1
        assert 8.0 < board.power_active_w < 9.5


def test_watts_of_whole_steps_replace_a_bases_waiting(tmp_path: Path) -> None:
    """Rows of one length do not tell its power: their mean is that of all seconds."""
    text = yaml.safe_load(
        Catalogue().profile("device", "jetson_nano").path.read_text(encoding="utf-8")
    )
    text["processor"] |= {"stall_utilization": 0.05, "seconds_per_step": 0.2}
    text["unverified"] += ["processor.stall_utilization", "processor.seconds_per_step"]
    (tmp_path / "waiting.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    rows = [f"board,resnet18,3x32x32,10,16,3200,{seconds},,8,train" for seconds in (76, 77)]

    board = watts_of(tmp_path / "own", rows, "waiting", "resnet18")

    assert board.stall_utilization == 1.0
    assert board.power_active_w == pytest.approx(8.0, rel=0.02)
