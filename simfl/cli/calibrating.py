"""The commands that turn measurements into profiles, and that make measurements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from simfl.cli.common import Traceback, exit_codes, say


def calibrate(
    measurements: Annotated[Path, typer.Argument(help="A CSV file; docs/calibrate.md says how.")],
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[DEVICE=]PROFILE",
            help="The base profile, for devices without a profile of their name.",
        ),
    ] = None,
    base_link: Annotated[
        str, typer.Option(metavar="PROFILE", help="The same for links.")
    ] = "wifi5_ac",
    out: Annotated[Path, typer.Option(help="The folder for the profiles.")] = Path("devices"),
    profiles: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Your own device and link files, usable as bases."),
    ] = None,
    for_model: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="MODEL", help="One of the measured models, the only one to simulate."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace profiles in --out.")] = False,
    quiet: Annotated[bool, typer.Option(help="No tables.")] = False,
    traceback: Traceback = False,
) -> None:
    """Make profiles of your own devices and links from measurements."""
    with exit_codes(traceback=traceback):
        from simfl.calibration.calibrate import calibrate as calibrated
        from simfl.calibration.measurements import read_measurements
        from simfl.common.files import replacing
        from simfl.console.calibration import print_calibration
        from simfl.pictures.calibration import save_predictions

        for name in read_measurements(measurements).profiles:
            if (out / f"{name}.yaml").exists() and not overwrite:
                raise FileExistsError(f"{out / name}.yaml: there already, accepted: --overwrite")
        found = calibrated(measurements, base or (), base_link, profiles or (), for_model)
        files = {out / f"{twin.name}.yaml": twin.text() for twin in found.twins}
        out.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with replacing(file) as partial:
                partial.write_text(text, encoding="utf-8")
        if not quiet:
            print_calibration(found)
        if found.computing is not None:
            say(
                f"{save_predictions(found.computing, out / 'calibration.png')}: predicted, measured"
            )
        for file in files:
            say(f"{file}: made")
        devices = [one.name for one in found.twins if one.base.kind == "device"]
        links = [one.name for one in found.twins if one.base.kind == "link"] or [base_link]
        if devices:
            share = f"share: {1 / len(devices):.3g}"
            groups = [f"{{device: {name}, link: {links[0]}, {share}}}" for name in devices]
            say(f"population: {{profiles: [{out}], groups: [{', '.join(groups)}]}}")


def measure(
    out: Annotated[Path, typer.Option(help="The CSV file to create.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL[@SHAPE]",
            help="A scenario's model or a torchvision name: resnet18@3x64x64. Repeatable.",
        ),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Examples per step. Repeatable.")
    ] = None,
    outputs: Annotated[int, typer.Option(min=2, help="Classes.")] = 10,
    device_name: Annotated[
        str, typer.Option("--name", help="The name of the device's profile.")
    ] = "my_device",
    threads: Annotated[int, typer.Option(min=1, help="Computing threads.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.0, help="Seconds of timing per row.")] = 2.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    traceback: Traceback = False,
) -> None:
    """Time training steps on this machine, with joules if it has a power meter."""
    if device not in ("cpu", "cuda"):
        raise typer.BadParameter(f"found {device!r}, accepted: cpu or cuda", param_hint="--device")
    if re.fullmatch(r"[A-Za-z][\w-]*", device_name) is None:
        raise typer.BadParameter(
            f"found {device_name!r}, accepted: a letter, then letters, digits, _ and -",
            param_hint="--name",
        )
    with exit_codes(traceback=traceback):
        if out.exists():
            raise FileExistsError(f"{out}: there already")
        from simfl.calibration import stopwatch
        from simfl.calibration.meters import find_meter

        meter = find_meter(of_gpu=device == "cuda")
        watch = stopwatch.Stopwatch(seconds, threads, device, meter)
        chosen = [stopwatch.trained_of(text) for text in model or stopwatch.STANDARD]
        for one in chosen:
            if one.model in (model or ()):
                say(f"{one.model}: no shape was given, {one.shape_text} is taken (MODEL@SHAPE)")
        rows = []
        for row in watch.rows(device_name, chosen, outputs, batch or [8, 32]):
            rows.append(row)
            if row["state"] == "train":
                step_ms = 1e3 * float(str(row["seconds"])) / int(str(row["batches"]))
                of = f"{row['model']} on {row['input_shape']}, {row['batch_size']} examples"
                say(f"{of}: {step_ms:.4g} ms a step")
        words = f"{threads} thread{'s' * (threads > 1)}" if device == "cpu" else "the GPU"
        energy = f"joules of {meter.name}" if meter else "no joules: no meter that can be read"
        stopwatch.write_rows(out, rows, f"simfl measure on {words}; {energy}")
        say(f"{out}: {len(rows)} rows on {words}; {energy}")
