"""A table in Parquet."""

from __future__ import annotations

from dataclasses import dataclass
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

    def read(self, file: Path) -> pd.DataFrame:
        """The rows; raises ValueError for what is no Parquet."""
        import pandas as pd

        try:
            return pd.read_parquet(file)
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{file} cannot be read as a table: {reason}") from error
