"""Local data sets in the formats of Hugging Face's library `datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from simfl.common.files import DataPath
from simfl.common.suggestion import nearest
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.columns import held_out, owner_numbers, require_once, targets_of
from simfl.learning.datasets.image_folder import in_eight_bits
from simfl.learning.datasets.npz import inputs_of
from simfl.learning.datasets.table import located
from simfl.learning.datasets.written import require_no_disguised_numbers, require_one_spelling
from simfl.learning.objective import Task

FILES = (".parquet", ".arrow")


@dataclass(frozen=True)
class Huggingface(Dataset):
    """A data set saved by Hugging Face's `datasets` (`save_to_disk`), or Parquet or Arrow files.

    Nothing is downloaded; needs the package datasets (`pip install 'simfl[huggingface]'`). Inputs
    are a column of images, of numbers, or of equally long lists of numbers (such as tokens), or
    several columns of numbers together. Images become (channels, height, width) in [0, 1], with one
    channel if all are grey.
    """

    path: Annotated[
        DataPath,
        "a saved folder, a .parquet or .arrow file, or a folder of such files; relative paths are"
        " searched beside the scenario, then below the data root",
    ]
    inputs: Annotated[tuple[str, ...], "the input column, or columns"]
    label: Annotated[str, "the column to learn: real numbers are a regression, others classes"]
    train: Annotated[
        str, "the part to train on: a split of a saved folder, or the beginning of file names"
    ] = "train"
    test: Annotated[str | None, "the part to test on; null: test_share of train"] = None
    test_share: Annotated[
        float, "> 0", "< 1", "share of the rows (of every class) held out for testing"
    ] = 0.2
    owner: Annotated[str | None, "the column of each row's owner, for the partition natural"] = None
    size: Annotated[
        int | None,
        ">= 1",
        "<= 4096",
        "height and width to scale images to; null: no scaling, all images have one size",
    ] = None
    task: Annotated[
        Literal["classification", "regression"] | None,
        "classification or regression; null: from the label column",
    ] = None

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("inputs: found none, accepted: one column at least")
        require_once(self.inputs, "inputs")

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads the rows; raises ValueError for missing columns, or non-numbers."""
        path = located(root, self.path, "path")
        parts = [self._rows(path, self.train, "train")]
        if self.test is not None:
            parts.append(self._rows(path, self.test, "test"))
        inputs = [self._inputs(rows) for rows in parts]
        labels = [_values(rows, self.label, "label") for rows in parts]
        owners = None if self.owner is None else _values(parts[0], self.owner, "owner")
        self._require_as_meant(labels, owners)
        if self.test is None:
            kept = held_out(labels[0], self.test_share, seed, self.task)
            inputs = [inputs[0][rows] for rows in kept]
            labels = [labels[0][rows] for rows in kept]
            owners = None if owners is None else owners[kept[0]]
        y_train, y_test, task, outputs = self._targets(parts[0].features[self.label], *labels)
        return Data(
            Examples(inputs[0], y_train),
            Examples(inputs[1], y_test),
            task,
            outputs,
            None if owners is None else owner_numbers(owners),
        )

    def _rows(self, path: Path, part: str, key: str) -> Any:
        """One part as a `datasets.Dataset`."""
        library = _library()
        if path.is_dir() and not (path / "state.json").is_file():
            if (path / "dataset_dict.json").is_file():
                known = sorted(one.name for one in path.iterdir() if one.is_dir())
                if part not in known:
                    hint = nearest(part, known) or ";"
                    raise ValueError(f"{key}: no part {part!r}{hint} accepted: {', '.join(known)}")
                files = [path / part]
            else:
                there = [one for one in sorted(path.rglob("*")) if one.suffix in FILES]
                files = [one for one in there if one.name.startswith(part)]
                if not files:
                    names = ", ".join(one.name for one in there[:5]) or "no such files"
                    raise ValueError(
                        f"{key}: no .parquet or .arrow file in {path} begins with {part!r}; found:"
                        f" {names}"
                    )
        elif key == "test":
            raise ValueError(
                f"test: {path} has one part; accepted: null, which takes test_share of it"
            )
        else:
            files = [path]
        try:
            rows = library.concatenate_datasets([_read(library, file) for file in files])
        except Exception as error:  # pyarrow and datasets may raise anything
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"path: {files[0]} cannot be read: {reason}") from error
        if not len(rows):
            raise ValueError(f"{key}: {files[0]} has no rows")
        return rows

    def _inputs(self, rows: Any) -> Tensor:
        """All inputs of a part: (rows, ...)."""
        for column in self.inputs:
            _require(rows, column, "inputs")
        first = rows.features[self.inputs[0]]
        if len(self.inputs) == 1 and type(first).__name__ == "Image":
            return inputs_of(_images(rows, self.inputs[0], self.size), "inputs")
        columns = [_numbers(rows, column) for column in self.inputs]
        if len(columns) == 1 and columns[0].ndim > 1:
            return inputs_of(columns[0], f"inputs: column {self.inputs[0]!r}")
        wrong = next((place for place, one in enumerate(columns) if one.ndim > 1), None)
        if wrong is not None:
            raise ValueError(
                f"inputs: column {self.inputs[wrong]!r} has lists; accepted: one column of lists,"
                " or several columns of single numbers"
            )
        return inputs_of(np.stack(columns, axis=1), "inputs")

    def _require_as_meant(self, labels: Sequence[np.ndarray], owners: np.ndarray | None) -> None:
        """Refuses disguised numbers, and values that differ in blanks only, as tables do."""
        import pandas as pd  # a dependency of datasets; other runs need not import it

        own = [pd.Series(one) for one in labels]
        if self.task != "classification":
            what = f"label: column {self.label!r}"
            require_no_disguised_numbers(own[0], what, "`task: classification`")
        named = [("label", self.label, own)]
        if owners is not None:
            named.append(("owner", str(self.owner), [pd.Series(owners)]))
        for key, column, values in named:
            require_one_spelling(values, f"{key}: column {column!r}")

    def _targets(
        self, feature: Any, train: np.ndarray, test: np.ndarray
    ) -> tuple[Tensor, Tensor, Task, int]:
        if type(feature).__name__ == "ClassLabel" and self.task != "regression":
            found = [torch.from_numpy(one.astype(np.int64)) for one in (train, test)]
            return found[0], found[1], "classification", int(feature.num_classes)
        try:
            return targets_of(train, test, self.task)
        except ValueError as error:
            raise ValueError(f"label: column {self.label!r}: {error}") from error


def _library() -> Any:
    """The package datasets; raises ValueError if it is not installed."""
    if find_spec("datasets") is None:
        raise ValueError(
            "needs the package datasets, which is not installed: pip install 'simfl[huggingface]'"
        )
    import datasets

    datasets.disable_progress_bars()
    return datasets


def _read(library: Any, file: Path) -> Any:
    """The rows of a file or saved folder, read in place, without a copy in a cache."""
    if file.is_dir():
        return library.load_from_disk(str(file))
    if file.suffix == ".arrow":
        return library.Dataset.from_file(str(file))
    from pyarrow import parquet

    return library.Dataset(library.table.InMemoryTable(parquet.read_table(file)))


def _require(rows: Any, column: str, key: str) -> None:
    known: Sequence[str] = rows.column_names
    if column not in known:
        hint = nearest(column, known) or ";"
        raise ValueError(f"{key}: no column {column!r}{hint} accepted: {', '.join(known)}")


def _values(rows: Any, column: str, key: str) -> np.ndarray:
    """A column of single values: numbers, or text."""
    _require(rows, column, key)
    values = _array(rows, column)
    if values.dtype.kind == "O":
        missing = next((row for row, one in enumerate(values) if one is None), None)
        if missing is not None:
            raise ValueError(f"{key}: column {column!r} has no value in row {missing + 1}")
        values = np.array([str(one) for one in values])
    if values.ndim != 1 or values.dtype.kind not in "fiubSU":
        raise ValueError(f"{key}: column {column!r} has lists, accepted: one value in every row")
    if values.dtype.kind == "f" and np.isnan(values).any():
        first = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"{key}: column {column!r} has no value in row {first + 1}")
    return values


def _numbers(rows: Any, column: str) -> np.ndarray:
    """A column of numbers, or of equally long lists of them: (rows, ...)."""
    values = _array(rows, column)
    if values.dtype.kind in "fiub":
        return values
    first = values.flat[0] if values.size else ""
    if isinstance(first, str | bytes):
        raise ValueError(
            f"inputs: column {column!r} is text; accepted: images, numbers or lists of numbers:"
            f" tokenise it, or take the data set text"
        )
    sizes = sorted({np.shape(one) for one in values}, key=str)
    if len(sizes) > 1:
        raise ValueError(
            f"inputs: column {column!r} has lists of different lengths, such as {sizes[0]} and"
            f" {sizes[1]}; accepted: lists of one length"
        )
    raise ValueError(
        f"inputs: column {column!r} has values that are not numbers, such as {first!r}"
    )


def _array(rows: Any, column: str) -> np.ndarray:
    """A column as it is; images in other columns are not decoded."""
    return np.asarray(rows.with_format("numpy", columns=[column])[:][column])


def _images(rows: Any, column: str, size: int | None) -> np.ndarray:
    """A column of images: uint8 (rows, height, width, 1 or 3)."""
    found: list[np.ndarray] = []
    for number, given in enumerate(rows[column]):
        if given is None:
            raise ValueError(f"inputs: column {column!r} has no image in row {number + 1}")
        try:
            image = in_eight_bits(given)
        except ValueError as error:
            raise ValueError(f"inputs: column {column!r}, row {number + 1}: {error}") from error
        image = image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB")
        if size is not None:
            image = image.resize((size, size))
        pixels = np.asarray(image, dtype=np.uint8)
        if found and pixels.shape[:2] != found[0].shape[:2]:
            raise ValueError(
                f"size: the image in row {number + 1} is {pixels.shape[0]}x{pixels.shape[1]}, the"
                f" first {found[0].shape[0]}x{found[0].shape[1]}; give a size to scale them to"
            )
        found.append(pixels.reshape(*pixels.shape[:2], -1))
    channels = max(one.shape[2] for one in found)
    return np.stack([np.broadcast_to(one, (*one.shape[:2], channels)) for one in found])
