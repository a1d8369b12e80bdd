"""The common base of data sets from tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from simfl.common.files import DataMissing, DataPath
from simfl.common.suggestion import nearest
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.columns import (
    Encoding,
    held_out,
    owner_numbers,
    require_once,
    targets_of,
)
from simfl.learning.datasets.doubtful import (
    placeholder_values,
    row_numbers,
    scattered_columns,
    unused_columns,
)
from simfl.learning.datasets.written import (
    is_number,
    require_no_disguised_numbers,
    require_one_spelling,
)

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 1000
"""A column with more different values is not a category (but an identifier, for example)."""


@dataclass(frozen=True)
class Table(Dataset):
    """A table: every row is an example, every column except the label a feature.

    Columns of numbers are standardised with the training rows' mean and deviation; all other
    columns are categories, one feature for each value among the training rows.
    """

    path: Annotated[
        DataPath,
        "the file; relative paths are searched beside the scenario, then below the data root",
    ]
    label: Annotated[str, "the column to learn: real numbers are a regression, others classes"]
    test: Annotated[DataPath | None, "a file with the test rows; null: test_share of the rows"] = (
        None
    )
    test_share: Annotated[
        float, "> 0", "< 1", "share of the rows (of every class) held out for testing"
    ] = 0.2
    owner: Annotated[str | None, "the column of each row's owner, for the partition natural"] = None
    numeric: Annotated[
        tuple[str, ...] | None, "columns of numbers; null: all that are not categorical"
    ] = None
    categorical: Annotated[
        tuple[str, ...] | None, "columns of categories; null: all that are not numeric"
    ] = None
    leave_out: Annotated[tuple[str, ...], "columns to ignore"] = ()
    numbers: Annotated[
        Literal["standardised", "raw"], "scaling of the numeric columns; raw: as in the file"
    ] = "standardised"
    missing: Annotated[
        Literal["refuse", "drop"], "what to do with rows that lack a value in a used column"
    ] = "refuse"
    task: Annotated[
        Literal["classification", "regression"] | None,
        "classification or regression; null: from the label column",
    ] = None

    def __post_init__(self) -> None:
        require_once(self.numeric or (), "numeric")
        require_once(self.categorical or (), "categorical")

    @abstractmethod
    def read(self, file: Path, as_text: Sequence[str] = ()) -> pd.DataFrame:
        """The rows of a file; raises ValueError if it is not a table.

        `as_text`: columns to read as text, even if all their cells look like numbers.
        """

    @abstractmethod
    def is_whole(self, file: Path, column: str) -> bool:
        """Whether a column of real numbers and missing values was written as whole numbers.

        1 counts as whole, 1.0 does not.
        """

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads the file, or both files; errors name the column."""
        file = located(root, self.path, "path")
        rows = self._rows(file)
        numeric, categorical = self._features(rows)
        rows = self._complete(file, rows, [*numeric, *categorical])
        if self.test is not None:
            test_file = located(root, self.test, "test")
            test = self._rows(test_file)
            for column in (self.label, *numeric, *categorical):
                _require(test, column, "test")
            test = self._complete(test_file, test, [*numeric, *categorical])
            # A column that looks like numbers in one file only is text in both: "01" is not 1.
            test = self._retold(test_file, test, rows, [self.label, *categorical])
            train = self._retold(file, rows, test, categorical)
            train, test = _as_real_as_the_other(train, test, categorical)
            self._require_one_spelling([train, test], categorical)
        else:
            self._require_one_spelling([rows], categorical)
            kept, held = held_out(_labels(rows[self.label]), self.test_share, seed, self.task)
            train, test = rows.iloc[kept], rows.iloc[held]
        parts = [train, test]
        numbers = [self._numbers(part, numeric) for part in parts]
        texts = [[_texts(part[column]) for column in categorical] for part in parts]
        encoding = Encoding.of(texts[0], numbers[0], standardised=self.numbers == "standardised")
        for column, values in zip(categorical, encoding.values, strict=True):
            if len(values) > MOST_VALUES:
                raise ValueError(
                    f"categorical: column {column!r} has {len(values):,} different values,"
                    f" accepted: at most {MOST_VALUES:,}; leave it out with leave_out"
                )
        inputs = [encoding.features(*part) for part in zip(texts, numbers, strict=True)]
        labels = [_labels(part[self.label]) for part in parts]
        for part, values in zip(parts, labels, strict=True):
            if values.dtype.kind == "f":
                _require_finite(values, part.index, f"label: column {self.label!r}")
        try:
            y_train, y_test, task, outputs = targets_of(labels[0], labels[1], self.task)
        except ValueError as error:
            raise ValueError(f"label: column {self.label!r}: {error}") from error
        owners = None if self.owner is None else owner_numbers(_labels(train[self.owner]))
        return Data(
            Examples(inputs[0], y_train),
            Examples(inputs[1], y_test),
            task,
            outputs,
            owners,
            doubts={
                **unused_columns(
                    [one for one in self._free(rows) if one not in (*numeric, *categorical)]
                ),
                **scattered_columns(
                    dict(zip(categorical, map(len, encoding.values), strict=True)),
                    len(train),
                    inputs[0].shape[1],
                ),
                **placeholder_values(dict(zip(numeric, numbers[0].T, strict=True))),
                **row_numbers(dict(zip(numeric, self._numbers(rows, numeric).T, strict=True))),
            },
        )

    def _rows(self, file: Path, as_text: Sequence[str] = ()) -> pd.DataFrame:
        rows = self.read(file, as_text)
        if not len(rows):
            raise ValueError(f"{file} has no rows")
        names = [str(one) for one in rows.columns]
        require_own_names(names, file)
        return rows.set_axis(names, axis=1).reset_index(drop=True)

    def _retold(
        self, file: Path, rows: pd.DataFrame, other: pd.DataFrame, columns: Sequence[str]
    ) -> pd.DataFrame:
        """The file's rows, with columns as text if they are numbers here but text in the other
        file.
        """
        mixed = [one for one in columns if _is_number(rows[one]) and not _is_number(other[one])]
        if not mixed:
            return rows
        again = self._rows(file, mixed)
        return rows.assign(**{column: again.loc[rows.index, column] for column in mixed})

    def _features(self, rows: pd.DataFrame) -> tuple[list[str], list[str]]:
        """The numeric and the categorical columns, in the file's order."""
        _require(rows, self.label, "label")
        if self.owner is not None:
            _require(rows, self.owner, "owner")
        given = {"numeric": self.numeric, "categorical": self.categorical}
        for key, columns in {**given, "leave_out": self.leave_out}.items():
            for column in columns or ():
                _require(rows, column, key)
                if column == self.label and key != "leave_out":
                    raise ValueError(f"{key}: found {column!r}, which is the label")
        both = sorted({*(self.numeric or ())} & {*(self.categorical or ())})
        if both:
            raise ValueError(f"categorical: found {both[0]!r}, which is also in numeric")
        named = {*(self.numeric or ()), *(self.categorical or ())}
        for column in self.leave_out:
            if column in named:
                kind = "numeric" if column in (self.numeric or ()) else "categorical"
                raise ValueError(f"leave_out: found {column!r}, which is also in {kind}")
        free = self._free(rows)
        is_number = {column: _is_number(rows[column]) for column in free}
        numeric, categorical = (
            [*columns]
            if columns is not None
            else [one for one in free if one not in named and is_number[one] == wanted]
            for wanted, columns in ((True, self.numeric), (False, self.categorical))
        )
        if not numeric and not categorical:
            known = ", ".join(str(column) for column in rows.columns)
            raise ValueError(f"leave_out: no column is left as a feature, out of {known}")
        _require_single(rows, self.label, "label", "")
        if self.owner is not None:
            _require_single(rows, self.owner, "owner", "")
        for column in categorical:
            _require_single(rows, column, "categorical", "; leave it out with leave_out")
        if self.task != "classification":
            what = f"label: column {self.label!r}"
            require_no_disguised_numbers(rows[self.label], what, "`task: classification`")
        for column in categorical if self.categorical is None else ():
            what = f"numeric: column {column!r}"
            require_no_disguised_numbers(
                rows[column], what, "the column among categorical or leave_out"
            )
        return numeric, categorical

    def _free(self, rows: pd.DataFrame) -> list[str]:
        """The columns that may be features."""
        left_out = {self.label, self.owner, *self.leave_out}
        return [str(column) for column in rows.columns if column not in left_out]

    def _require_one_spelling(
        self, files: Sequence[pd.DataFrame], categorical: Sequence[str]
    ) -> None:
        named = [("label", self.label), *(("categorical", one) for one in categorical)]
        for key, column in named:
            require_one_spelling([rows[column] for rows in files], f"{key}: column {column!r}")
        if self.owner is not None:
            require_one_spelling([files[0][self.owner]], f"owner: column {self.owner!r}")

    def _complete(self, file: Path, rows: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
        """The rows without a missing value in the columns used."""
        used = [self.label, *features]
        if self.owner is not None and self.owner in rows:
            used.append(self.owner)
        absent = rows[used].isna()
        lacking = absent.any(axis=1).to_numpy()
        if not lacking.any():
            return rows
        if self.missing == "refuse":
            first = int(np.flatnonzero(lacking)[0])
            column = next(name for name in used if absent[name].iloc[first])
            raise ValueError(
                f"missing: found {lacking.sum():,} of {len(rows):,} rows with a missing value,"
                f" first in row {first + 1}, column {column!r}; accepted: no such rows, or"
                " `missing: drop`, which leaves them out"
            )
        if lacking.all():
            raise ValueError("missing: every row lacks a value, so drop leaves no row")
        kept = rows[~lacking]
        # With missing values, whole numbers were read as real ones, and booleans as objects.
        gaps = [one for one in used if absent[one].any()]
        real = [one for one in gaps if kept[one].dtype.kind == "f"]
        whole = [one for one in real if (kept[one] % 1 == 0).all() and self.is_whole(file, one)]
        told = [one for one in gaps if all(isinstance(value, bool) for value in kept[one])]
        return kept.astype({**dict.fromkeys(whole, "int64"), **dict.fromkeys(told, "bool")})

    def _numbers(self, rows: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
        """The numeric columns, float64 (rows, columns), all of them finite as float32."""
        found = np.empty((len(rows), len(columns)))
        for place, column in enumerate(columns):
            values = rows[column]
            if not _is_number(values):
                text = next((one for one in values if not is_number(one)), None)
                if text is not None:
                    raise ValueError(f"numeric: column {column!r} has text, such as {text!r}")
                values = values.map(lambda one: float(str(one)))
            found[:, place] = values.to_numpy(dtype=np.float64)
            _require_finite(found[:, place], rows.index, f"numeric: column {column!r}")
        return found


def located(root: Path | None, path: str, key: str) -> Path:
    """A file or folder below the data root, or beside the scenario; raises DataMissing."""
    found = (root or Path()) / path
    if not found.exists():
        raise DataMissing(
            f"{key}: no file {found}; put it there or beside the scenario, or set the data root"
            " with --data-root, SIMFL_DATA or data.root"
        )
    return found


def require_own_names(names: Sequence[str], file: Path) -> None:
    """Raises ValueError if two columns have the same name."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ValueError(f"{file} has several columns named {twice!r}, accepted: different names")


def _require_finite(values: np.ndarray, rows: pd.Index, what: str) -> None:
    """Raises ValueError, beginning with `what`, for the first that is not finite as float32."""
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
    if wrong.size:
        raise ValueError(
            f"{what} has {values[wrong[0]]} in row {rows[wrong[0]] + 1}, accepted: finite numbers,"
            " below 3.4e38"
        )


def _as_real_as_the_other(
    train: pd.DataFrame, test: pd.DataFrame, columns: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both parts; a column that is real in one becomes real in both: as text, 1 and 1.0 differ."""
    kinds = {one: {train[one].dtype.kind, test[one].dtype.kind} for one in columns}
    real = dict.fromkeys(
        (one for one, both in kinds.items() if both in ({"i", "f"}, {"u", "f"})), "float64"
    )
    return train.astype(real), test.astype(real)


def _require_single(rows: pd.DataFrame, column: str, key: str, advice: str) -> None:
    """Raises ValueError if a column contains lists."""
    given = rows[column].dropna()
    if len(given) and np.ndim(given.iloc[0]):
        example = np.asarray(given.iloc[0]).tolist()
        raise ValueError(
            f"{key}: column {column!r} has lists, such as {example}; accepted: one value in every"
            f" row{advice}"
        )


def _is_number(column: pd.Series) -> bool:
    """Whether it has numbers or booleans; with missing values, pandas reads booleans as objects."""
    if column.dtype.kind in "fiub":
        return True
    given = column.dropna()
    return bool(len(given)) and all(isinstance(value, bool) for value in given)


def _require(rows: pd.DataFrame, column: str, key: str) -> None:
    known = [str(one) for one in rows.columns]
    if column not in known:
        hint = nearest(column, known) or ";"
        raise ValueError(f"{key}: no column {column!r}{hint} accepted: {', '.join(known)}")


def _labels(column: pd.Series) -> np.ndarray:
    """Numbers unchanged, anything else as text."""
    return column.to_numpy() if _is_number(column) else _texts(column)


def _texts(column: pd.Series) -> np.ndarray:
    return column.astype(str).to_numpy(dtype=str)
