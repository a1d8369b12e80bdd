"""Rows as users type them: what is read, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.calibration.calibrate import calibrate
from simfl.calibration.measurements import read_measurements
from simfl.calibration.works import model_part, works
from simfl.scenario.yaml_source.error import ScenarioError
from tests.calibration.planted import PIS, SECONDS, file_of

TRAINED = "device,batch_size,batches,seconds,convolution_flops,traffic_bytes"
ANY = "device,model,input_shape,outputs,batch_size,batches,examples,seconds,state,watts,joules"
TRANSFER = "device,direction,bytes,seconds"
GOOD = "rpi_4b,16,20,218.37,3.6e9,6.1e7"


def test_rows_of_all_three_kinds_are_read(tmp_path: Path) -> None:
    """A computation with watts is two; comments and empty lines count as lines."""
    head = f"{ANY},direction,bytes,link,note"
    path = file_of(
        tmp_path,
        [
            "# by hand",
            "",
            "pi,linear,784,10,16,20,,1.5,,6.0,,,,,warm",
            'pi,"{name: mlp, hidden: [20]}",784,10,16,,40,1.5,train,,9,,,,',
            "pi,,,,,,,60,idle,,120,,,,",
            "pi,,,,,,,1.5,,,,up,1e6,home,",
        ],
        head,
    )

    found = read_measurements(path)

    assert [(one.line, one.batches, one.examples) for one in found.computations] == [
        (4, 20, 320),
        (5, 3, 40),
    ]
    assert [(one.state, one.watts) for one in found.draws] == [
        ("train", 6.0),
        ("train", 6.0),
        ("idle", 2.0),
    ]
    assert [(one.link, one.direction, one.bytes) for one in found.transfers] == [
        ("home", "up", 1e6)
    ]
    assert [int(one.dense) for one in works(found)] == [15680, 31760]


@pytest.mark.parametrize(
    ("head", "row", "words"),
    [
        (TRAINED, "rpi_4b,16,20,-3,3.6e9,6.1e7", ":3: seconds: found '-3', accepted: a number > 0"),
        (TRAINED, "rpi_4b,16,20,,3.6e9,6.1e7", ":3: seconds: missing, accepted: a number > 0"),
        (TRAINED, "rpi_4b,16,20,2 min,3.6e9,6.1e7", ":3: seconds: found '2 min', accepted"),
        (TRAINED, "rpi_4b,16,20,nan,3.6e9,6.1e7", ":3: seconds: found 'nan', accepted"),
        (
            TRAINED,
            "rpi_4b,16,20,1e31,3.6e9,6.1e7",
            ":3: seconds: found '1e31', accepted: a number > 0 and < 1e",
        ),
        (TRAINED, "rpi_4b,16,2.5,9,3.6e9,6.1e7", ":3: batches: found '2.5', accepted: a whole"),
        (TRAINED, "rpi_4b,16,20,9,3.6e9", ":3: found 5 cells, accepted: 6, one for each column"),
        (TRAINED, "rpi_4b,16,20,9,,6.1e7", ":3: model: missing, accepted: a model's name, or the"),
        (TRAINED, "rpi 4b,16,20,9,3.6e9,6.1e7", ":3: device: found 'rpi 4b', accepted: a name"),
        # milliseconds, and kiloseconds, by what a Raspberry Pi is likely to take
        (TRAINED, "rpi_4b,16,20,218370,3.6e9,6.1e7", ":3: seconds: found 2.184e+05,"),
        (TRAINED, "rpi_4b,16,20,0.21837,3.6e9,6.1e7", ":3: seconds: found 0.2184, 1 / "),
        (f"{TRAINED},watts", f"{GOOD},7200", ":3: watts: found 7200,"),
        (f"{TRAINED},clock_hz", f"{GOOD},1800", ":3: clock_hz: found 1800.0, accepted: 6e+08 to"),
        (f"{TRAINED},state", f"{GOOD},sleep", ":3: state: found 'sleep', accepted: train or idle"),
        (f"{TRAINED},state", f"{GOOD},idle", ":3: batch_size: found '16', accepted: an empty cell"),
        (f"{TRAINED},threads", f"{GOOD},4", ":3: threads: found 4, accepted: 1, as in line 2"),
        (TRANSFER, "rpi_4b,sideways,1e6,1", ":3: direction: found 'sideways', accepted: up (from"),
        (TRANSFER, "rpi_4b,up,1e6,900", ":3: seconds: found 900 seconds for 1e+06 bytes, where"),
        (TRANSFER, "rpi_4b,up,1e6,900", " by wifi5_ac; seconds in ms, or bytes in kB? Accepted: "),
        (TRANSFER, "rpi_4b,up,10,8.4", ":3: bytes: found 8.4 seconds for 10 bytes, where 0.002 "),
        (TRANSFER, "rpi_4b,up,10,8.4", " wifi5_ac; bytes in MB, or seconds in ms? Accepted: sec"),
        (TRANSFER, "rpi_4b,up,1e7,2e6", " wifi5_ac; seconds in us, or bytes in MB? Accepted: sec"),
        (TRANSFER, "rpi_4b,up,1e9,0.1", ":3: seconds: found 0.1, 1 / 1e+03 of the 100 that are"),
        (TRANSFER, "rpi_4b,up,1e6,", ":3: seconds: missing"),
        (f"{TRANSFER},watts", "rpi_4b,up,1e6,1,5.2", ":3: watts: found '5.2', accepted: an empty"),
        (f"{TRANSFER},state", "rpi_4b,up,1e6,1,idle", ":3: state: found 'idle', accepted: an"),
        (ANY, "pi,mlp,784,10,1,1,,1,,,", ":3: device: no profile is called 'pi'; accepted: --base"),
        (ANY, "rpi_4b,mlp,784,,1,1,,1,,,", ":3: outputs: missing, accepted: how many classes"),
        (ANY, "rpi_4b,resnet19,3x64x64,,1,1,,1,,,", ":3: model: unknown name 'resnet19', did"),
        (ANY, "rpi_4b,mpl,784,10,1,1,,1,,,", ":3: model: unknown name 'mpl', did you mean 'mlp'"),
        (ANY, "rpi_4b,cnn,784,10,1,1,,1,,,", ":3: model: found 'cnn', model cnn takes images"),
        (ANY, "rpi_4b,[2],784,10,1,1,,1,,,", ":3: model: found '[2]', accepted: a model's name"),
        (ANY, "rpi_4b,mlp,a lot,10,1,1,,1,,,", ":3: input_shape: found 'a lot', accepted: sizes"),
        (ANY, "rpi_4b,mlp,784,10,8,1,5,1,,,", ":3: examples: found 5, accepted: at least"),
        (ANY, "rpi_4b,mlp,784,10,8,3,8,1,,,", ":3: batches: found '3', accepted: 1, which 8"),
        (f"{TRAINED},trainings", f"{GOOD},0.5", ":3: trainings: found '0.5', accepted: a whole"),
        (f"{TRAINED},trainings", f"{GOOD},21", ":3: batches: found 20, accepted: at least 21"),
        (ANY, "rpi_4b,,,,,,,9,train,,", ":3: watts: missing, accepted: watts, or joules"),
        (ANY, "rpi_4b,,,,,,,9,train,4,5", ":3: joules: found '5', accepted: an empty cell"),
        (ANY, "rpi_4b,,,,,,,,idle,,5", ":3: seconds: missing"),
    ],
)
def test_a_wrong_row_is_refused_by_its_line(
    head: str, row: str, words: str, tmp_path: Path
) -> None:
    """With the cell, what was found and what is accepted; the row above it is fine."""
    fine = {
        TRAINED: GOOD,
        f"{TRAINED},threads": f"{GOOD},1",
        TRANSFER: "rpi_4b,up,1e6,0.1",
        f"{TRANSFER},watts": "rpi_4b,up,1e6,0.1,",
        f"{TRANSFER},state": "rpi_4b,up,1e6,0.1,",
        ANY: "rpi_4b,,,,,,,,idle,1.6,",
    }
    above = fine.get(head, f"{GOOD},")

    with pytest.raises(ScenarioError) as caught:
        calibrate(file_of(tmp_path, [above, row], head))

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device,secnds\npi,3\n", ":1: unknown column 'secnds', did you mean 'seconds'"),
        ("device,device\npi,pi\n", ":1: device: found the column twice, accepted: once"),
        ("# nothing\ndevice,seconds\n", "found no rows, accepted: rows below"),
        ('device,note\npi,"open\n', ":2: found 'pi,\"open', accepted: a row of a CSV file"),
    ],
)
def test_a_file_that_is_no_table_is_refused(text: str, words: str, tmp_path: Path) -> None:
    """With the nearest column that there is."""
    path = tmp_path / "m.csv"
    path.write_text(text)

    with pytest.raises(ScenarioError) as caught:
        read_measurements(path)

    assert words in str(caught.value)


def test_a_row_in_another_unit_than_its_neighbours_is_refused(tmp_path: Path) -> None:
    """Where the base cannot tell: four rows agree with one another, the fifth is far off."""
    rows = [f"pi,16,20,{218.37 * scale:.4g},{3.6e9 * scale:.4g},6e7" for scale in (1, 2, 3, 4)]
    path = file_of(tmp_path, [*rows, "pi,16,20,5,3.6e9,6e7"], TRAINED)

    with pytest.raises(ScenarioError, match=r":6: seconds: found 5, 1 / 4\d.* by the other rows"):
        calibrate(path, ["macmini_m4"])


def test_a_file_of_the_benchmark_is_read_as_it_is(tmp_path: Path) -> None:
    """Images by height and width, models of torchvision's, comments; its counts are ours."""
    head = "device,model,batch_size,height,width,batches,seconds"
    rows = [
        f"rpi_5,{model},16,224,224,20,{s}" for model, s in zip(PIS, SECONDS["rpi_5"], strict=True)
    ]
    found = read_measurements(file_of(tmp_path, ["# 1000 classes", *rows[:1]], head))

    assert works(found) == [PIS["resnet18"]]
    assert model_part("vit_b_16").model_dump()["architecture"] == "vit_b_16"


def test_a_model_that_computes_while_it_is_built_is_counted(tmp_path: Path) -> None:
    """torchvision's RegNets; others are built without memory."""
    row = "a,regnet_y_400mf,4,224,224,20,15"
    head = "device,model,batch_size,height,width,batches,seconds"

    (found,) = works(read_measurements(file_of(tmp_path, [row], head)))

    # torchvision's own table of weights says 0.402 G multiply-adds.
    assert found.forward_flops == pytest.approx(2 * 0.402e9, rel=0.01)
