"""A table in Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.learning.datasets.table import Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Parquet(Table):
    """A table in a Parquet file, or in a folder of them: every row is an example.

    Columns of numbers are standardised with the training rows' mean and deviation; all other
    columns are categories, one feature for each value among the training rows.
    """

    def read(self, file: Path, as_text: Sequence[str] = ()) -> pd.DataFrame:
        """The rows; raises ValueError for a file that is not Parquet."""
        import pandas as pd

        try:
            rows = pd.read_parquet(file)
        except Exception as error:  # pyarrow may raise anything
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"{file} cannot be read as a table: {reason}") from error
        for column in rows.columns[~rows.columns.duplicated()]:
            if isinstance(next(iter(rows[column].dropna()), None), Decimal):
                rows[column] = _numbers(rows[column])
        return rows

    def is_whole(self, file: Path, column: str) -> bool:
        """Whether the column's type in the file is one of whole numbers."""
        import pandas as pd

        of_file = pd.read_parquet(file, columns=[column], dtype_backend="pyarrow").dtypes.iloc[0]
        # Decimals are whole if they have no digit after the point.
        return of_file.kind in "iu" or getattr(of_file.pyarrow_dtype, "scale", None) == 0


def _numbers(decimals: pd.Series) -> pd.Series:
    """Decimals as whole numbers, if they have no digits after the point and no value is missing."""
    given = decimals.dropna()
    whole = len(given) == len(decimals) and all(
        one.as_tuple().exponent == 0 and abs(one) < 2**63 for one in given
    )
    return decimals.astype("int64" if whole else "float64")
