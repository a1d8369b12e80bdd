"""A table in a text file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from simfl.learning.datasets.table import Table, require_own_names
from simfl.learning.datasets.written import require_several_cells

if TYPE_CHECKING:
    import pandas as pd

WHOLE = re.compile("[-+]?[0-9]+")


@dataclass(frozen=True)
class Csv(Table):
    """A table in a file of comma-separated values: every row is an example.

    Columns of numbers are standardised with the training rows' mean and deviation; all other
    columns are categories, one feature for each value among the training rows. An empty cell, `NA`
    and the like are missing values. Files ending in .gz, .bz2, .xz or .zip are unpacked.
    """

    separator: Annotated[str, "character between two cells; blanks after it are skipped"] = ","
    columns: Annotated[
        tuple[str, ...] | None, "names of the columns, for a file without a heading"
    ] = None
    missing_values: Annotated[
        tuple[str, ...], 'texts that mean a missing value, besides empty cells, such as "?"'
    ] = ()

    def read(self, file: Path, as_text: Sequence[str] = ()) -> pd.DataFrame:
        """The rows; raises ValueError for a file that is not a table in UTF-8."""
        rows = self._cells(file, as_text)
        large = [str(one) for one in rows.columns if self._beyond_64_bits(rows[one])]
        if large:  # pandas reads them as text, and has no missing values beside some of them
            rows = self._cells(file, [*as_text, *large])
            as_they_are = (self.label, self.owner, *(self.categorical or ()), *as_text)
            rows = rows.astype({one: "float64" for one in large if one not in as_they_are})
        return rows

    def is_whole(self, file: Path, column: str) -> bool:
        """Whether all cells consist of digits only."""
        rows = self.read(file, [column])
        texts = rows.set_axis([str(one) for one in rows.columns], axis=1)[column].dropna()
        return all(WHOLE.fullmatch(str(one).strip()) for one in texts)

    def _beyond_64_bits(self, column: pd.Series) -> bool:
        """Whether a column has whole numbers only, at least one of them too large for 64 bits."""
        if column.dtype.kind in "fiub":
            return False
        absent = {"", *self.missing_values}
        return all(WHOLE.fullmatch(str(one)) for one in column.dropna() if one not in absent)

    def _cells(self, file: Path, as_text: Sequence[str]) -> pd.DataFrame:
        """The rows as pandas reads them, except columns that are to be text."""
        import pandas as pd

        if len(self.separator) != 1:
            raise ValueError(f"separator: found {self.separator!r}, accepted: one character")
        names: list[str] = []
        try:
            first = pd.read_csv(
                file,
                sep=self.separator,
                header=None,
                nrows=1,
                dtype=str,
                keep_default_na=False,
                skipinitialspace=True,
            )
            cells = first.iloc[0].tolist()
        except Exception as error:  # pandas and its decompressors may raise anything
            raise _unreadable(file, error) from error
        require_several_cells(
            cells, None if self.columns is None else len(self.columns), self.separator
        )
        if self.columns is None:  # pandas renames the second column of the same name
            names = [name for name in cells if name]
        try:
            with warnings.catch_warnings():
                # Rows with too many cells, which pandas would otherwise cut off.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                rows = pd.read_csv(
                    file,
                    sep=self.separator,
                    header=0 if self.columns is None else None,
                    names=None if self.columns is None else list(self.columns),
                    index_col=False,
                    skipinitialspace=True,
                    na_values=list(self.missing_values),
                    low_memory=False,
                    dtype=dict.fromkeys(as_text, str),
                )
        except Exception as error:
            raise _unreadable(file, error) from error
        require_own_names(names, file)
        return rows


def _unreadable(file: Path, error: Exception) -> ValueError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return ValueError(f"{file} cannot be read as a table: {reason}")
