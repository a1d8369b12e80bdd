"""Rows of measurements: a CSV file that a user types or `simfl measure` writes.

A row is one of three kinds, depending on the cells that are filled:

- a computation: `device`, what was trained, `batch_size`, `batches` or `examples`, `seconds`,
  `trainings` if these hold whole local trainings and not steps alone, and `watts` or `joules` if
  there was a meter. What was trained is either `model` with the shape of an
  example (`input_shape`, such as 3x32x32, or `height` and `width` and optionally `channels`) and
  `outputs`; or the work of one example's forward pass by kind (`convolution_flops`, ...,
  `traffic_bytes`);
- a state: `device`, `state` (train or idle), and `watts`, or `joules` and `seconds`;
- a transfer: `device`, `direction` (up or down), `bytes`, `seconds`, and optionally `link`.

Empty cells count as absent; lines that begin with # are comments.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simfl.common.model_work import FORWARD_KINDS, ModelWork
from simfl.common.suggestion import nearest
from simfl.scenario.yaml_source.error import ScenarioError, show

WORK = {
    **{f"{kind}_flops": kind for kind in FORWARD_KINDS},
    "traffic_bytes": "traffic_bytes",
    "embedding_flops": "embedding",
    "recurrent_places": "recurrent_places",
    "update_flops": "update",
    "kernels_flops": "kernels",
}
"""Columns with a model's work, and the fields of `ModelWork` that they fill."""
COLUMNS = {
    "device": "the device's name; its profile gets it",
    "model": "a model as a scenario names it, or an architecture of torchvision",
    "input_shape": "of one example: 3x32x32, or 80 for a sequence",
    "channels": "of an image, 3 if empty",
    "height": "of an image",
    "width": "of an image",
    "outputs": "classes; 1000 if empty, for torchvision's",
    **dict.fromkeys(WORK, "work, in place of a model: of one example's forward pass"),
    "embedding_flops": "work, in place of a model: two for each entry of tables of tokens",
    "recurrent_places": "work, in place of a model: places that recurrent layers go through",
    "update_flops": "work, in place of a model: two for each weight outside of tables of tokens",
    "kernels_flops": "work, in place of a model: two for each weight of a convolution",
    "batch_size": "examples of a training step",
    "batches": "training steps that were timed",
    "examples": "examples that were timed, in place of batches",
    "seconds": "that the row took",
    "trainings": "whole local trainings in these seconds; empty: steps alone, in a loop",
    "clock_hz": "the processor's clock meanwhile; empty: its highest",
    "threads": "that computed",
    "state": "train or idle, for watts",
    "watts": "of the whole device meanwhile",
    "joules": "of the whole device, in place of watts",
    "meter": "what measured watts or joules",
    "link": "what a transfer's profile is to be called; empty: DEVICE_link",
    "direction": "of a transfer, up or down",
    "bytes": "that were transferred",
    "note": "anything",
}
"""Every column with its description."""

_LARGEST = 1e30
"""All numbers of a row are below this: products of them must not overflow."""

OUTPUTS = 1000
"""The number of classes of torchvision's models by default."""


@dataclass(frozen=True)
class Computation:
    """`batches` training steps with `examples` examples in all, which took `seconds`.

    They are those of so many whole local `trainings`, or (0) of steps in a loop. `model` is as
    written, with `input_shape` and `outputs` (None if not given). If it is empty, `work` holds the
    work as written.
    """

    line: int
    device: str
    model: str
    input_shape: tuple[int, ...]
    outputs: int | None
    work: ModelWork | None
    batch_size: int
    batches: int
    examples: int
    seconds: float
    clock_hz: float | None
    threads: int | None
    trainings: int = 0


@dataclass(frozen=True)
class Draw:
    """A device's power in a state (train or idle), and the meter that measured it."""

    line: int
    device: str
    state: str
    watts: float
    meter: str
    clock_hz: float | None


@dataclass(frozen=True)
class Transfer:
    """A transfer of `bytes` up or down a link within `seconds`."""

    line: int
    device: str
    link: str
    direction: str
    bytes: float
    seconds: float


@dataclass(frozen=True)
class Measurements:
    """All rows of a file, by kind."""

    path: Path
    computations: list[Computation] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)

    @property
    def on_devices(self) -> list[Computation | Draw]:
        """Rows about devices; transfers belong to their links."""
        return [*self.computations, *self.draws]

    @property
    def devices(self) -> list[str]:
        """Devices with rows of their own, ordered by their first computation or watts."""
        return list(dict.fromkeys(one.device for one in self.on_devices))

    @property
    def profiles(self) -> list[str]:
        """What is measured: devices and links."""
        return [*self.devices, *dict.fromkeys(one.link for one in self.transfers)]

    def wrong(
        self, line: int, key: str, found: object, accepted: str, message: str | None = None
    ) -> ScenarioError:
        """An error about a cell."""
        return ScenarioError(str(self.path), line, key, show(found), accepted, message)


def read_measurements(path: Path) -> Measurements:
    """The rows of a CSV file; raises ScenarioError with the line of any error."""
    found = Measurements(path, [], [], [])
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in _rows(file, found):
            row.into(found)
    if not (found.computations or found.draws or found.transfers):
        raise ScenarioError(str(path), None, "", "no rows", "rows below a line of column names")
    first: dict[str, Computation] = {}
    for one in found.computations:
        its = first.setdefault(one.device, one)
        if its.threads != one.threads:
            accepted = f"{show(its.threads)}, as in line {its.line}: a profile holds for one number"
            raise found.wrong(one.line, "threads", one.threads, accepted)
    return found


def _rows(file: Iterator[str], of: Measurements) -> Iterator[_Row]:
    """The rows below the header, with their line numbers."""
    head: list[str] | None = None
    numbered = enumerate(file, start=1)
    try:
        for line, text in numbered:
            if not text.strip() or text.lstrip().startswith("#"):
                continue
            cells = [cell.strip() for cell in next(csv.reader([text], strict=True))]
            if head is None:
                head = _head(cells, line, of)
                continue
            if len(cells) != len(head):
                message = f"found {len(cells)} cells, accepted: {len(head)}, one for each column"
                raise of.wrong(line, "", text, "", message)
            yield _Row(
                of, line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}
            )
    except UnicodeDecodeError as error:
        raise ScenarioError(str(of.path), None, "", "bytes that are no text", "UTF-8") from error
    except csv.Error as error:
        raise of.wrong(line, "", text.strip(), "a row of a CSV file") from error


def _head(cells: list[str], line: int, of: Measurements) -> list[str]:
    """The columns' names."""
    for name in cells:
        if name not in COLUMNS:
            if len(cells) == 1 and ";" in name:
                message = "found columns separated by ';', accepted: commas, and decimal points"
                raise of.wrong(line, "", name, "", message)
            hint = nearest(name, COLUMNS) or ";"
            message = f"unknown column {show(name)}{hint} accepted: {', '.join(COLUMNS)}"
            raise of.wrong(line, "", name, "", message)
        if cells.count(name) > 1:
            raise of.wrong(line, name, name, "", "found the column twice, accepted: once")
    return cells


@dataclass(frozen=True)
class _Row:
    """The filled cells of one line."""

    of: Measurements
    line: int
    cells: Mapping[str, str]

    def into(self, found: Measurements) -> None:
        """Add the row to the measurements."""
        device = self._text("device")
        if re.fullmatch(r"[A-Za-z][\w-]*", device) is None:
            raise self._wrong("device", device, "a name as my_pi: its profile is called so")
        clock_hz = self._number("clock_hz") if "clock_hz" in self.cells else None
        computed = {"model", "batch_size", "batches", "examples", "trainings", *WORK}
        trained = computed & set(self.cells)
        if {"direction", "bytes", "link"} & set(self.cells):
            for column in sorted(trained | {"state", "watts", "joules"} & set(self.cells))[:1]:
                raise self._wrong(column, self.cells[column], "an empty cell, for a transfer")
            found.transfers.append(self._transfer(device))
            return
        state = self.cells.get("state", "train")
        if state not in ("train", "idle"):
            raise self._wrong("state", state, "train or idle")
        if state == "idle" and trained:
            column = min(trained)
            raise self._wrong(column, self.cells[column], "an empty cell, for an idle device")
        if trained or "state" not in self.cells:
            found.computations.append(self._computation(device, clock_hz))
        if {"watts", "joules"} & set(self.cells) or not trained:
            found.draws.append(
                Draw(self.line, device, state, self._watts(), self.cells.get("meter", ""), clock_hz)
            )

    def _transfer(self, device: str) -> Transfer:
        direction = self._text("direction")
        if direction not in ("up", "down"):
            raise self._wrong("direction", direction, "up (from the device) or down")
        link = self.cells.get("link", f"{device}_link")
        if re.fullmatch(r"[A-Za-z][\w-]*", link) is None:
            raise self._wrong("link", link, "a name as home_wifi: its profile is called so")
        return Transfer(
            self.line, device, link, direction, self._number("bytes"), self._number("seconds")
        )

    def _computation(self, device: str, clock_hz: float | None) -> Computation:
        model = self.cells.get("model", "")
        given = {WORK[name]: self._number(name, least=0.0) for name in WORK if name in self.cells}
        if model and given:
            column = next(name for name in WORK if name in self.cells)
            raise self._wrong(column, self.cells[column], "an empty cell beside a model")
        work = None if model else ModelWork(**given)
        if work is not None and not work.forward_flops > 0:
            raise self._missing("model", "a model's name, or the work by kind")
        batch_size = self._whole("batch_size")
        trainings = self._whole("trainings") if "trainings" in self.cells else 0
        batches, examples = self._amount(batch_size, trainings)
        return Computation(
            self.line,
            device,
            model,
            self._shape() if model else (),
            self._whole("outputs") if "outputs" in self.cells else None,
            work,
            batch_size,
            batches,
            examples,
            self._number("seconds"),
            clock_hz,
            self._whole("threads") if "threads" in self.cells else None,
            trainings,
        )

    def _amount(self, batch_size: int, trainings: int) -> tuple[int, int]:
        """Batches and examples; one is derived from the other.

        A whole training may be shorter than a batch, and each of them ends with a short one.
        """
        if "examples" not in self.cells:
            batches = self._whole("batches", "a whole number > 0 here, or in examples")
            if batches < trainings:
                accepted = f"at least {trainings}, a step of each training"
                raise self._wrong("batches", batches, accepted)
            return batches, batches * batch_size
        examples, least = self._whole("examples"), trainings or batch_size
        if examples < least:
            which = "trainings" if trainings else "batch_size"
            raise self._wrong("examples", examples, f"at least {which}, which is {least}")
        each = trainings or 1
        batches = each * math.ceil(examples / (each * batch_size))
        if "batches" not in self.cells:
            return batches, examples
        given, fewest = self._whole("batches"), math.ceil(examples / batch_size)
        if trainings and not max(fewest, trainings) <= given <= examples:
            accepted = f"{max(fewest, trainings)} to {examples}, or an empty cell for {batches}"
            raise self._wrong("batches", self.cells["batches"], accepted)
        if not trainings and given != batches:
            accepted = f"{batches}, which {examples} examples make, or an empty cell"
            raise self._wrong("batches", self.cells["batches"], accepted)
        return given, examples

    def _shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        if "input_shape" in self.cells:
            text = self.cells["input_shape"]
            if re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", text) is None:
                raise self._wrong("input_shape", text, "sizes as 3x32x32, or 80")
            return tuple(int(size) for size in text.split("x"))
        if not {"height", "width"} & set(self.cells):
            raise self._missing("input_shape", "sizes as 3x32x32, or height and width of an image")
        channels = self._whole("channels") if "channels" in self.cells else 3
        return channels, self._whole("height"), self._whole("width")

    def _watts(self) -> float:
        if "watts" in self.cells:
            if "joules" in self.cells:
                raise self._wrong("joules", self.cells["joules"], "an empty cell beside watts")
            return self._number("watts")
        if "joules" not in self.cells:
            raise self._missing("watts", "watts, or joules and seconds")
        return self._number("joules") / self._number("seconds")

    def _text(self, column: str) -> str:
        if column not in self.cells:
            raise self._missing(column, COLUMNS[column])
        return self.cells[column]

    def _whole(self, column: str, accepted: str = "a whole number > 0") -> int:
        number = self._number(column, accepted=accepted)
        if number != int(number) or number > 2**53:
            raise self._wrong(column, self.cells[column], accepted)
        return int(number)

    def _number(
        self, column: str, accepted: str = "a number > 0", least: float | None = None
    ) -> float:
        if column not in self.cells:
            raise self._missing(column, accepted)
        text = self.cells[column]
        try:
            number = float(text)
        except ValueError:
            raise self._wrong(column, text, accepted) from None
        is_enough = number > 0 if least is None else number >= least
        if not (is_enough and number < _LARGEST):
            also = f" and < {_LARGEST:g}" if is_enough else ""
            raise self._wrong(column, text, f"{accepted}{also}")
        return number

    def _missing(self, column: str, accepted: str) -> ScenarioError:
        return self.of.wrong(self.line, column, None, accepted, f"missing, accepted: {accepted}")

    def _wrong(self, column: str, found: object, accepted: str) -> ScenarioError:
        return self.of.wrong(self.line, column, found, accepted)
