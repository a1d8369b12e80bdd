"""UCI Adult, read from files with the originals' quirks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from simfl.common.files import DataMissing
from simfl.learning.datasets.adult import Adult

NUMBERS = "{}, {}, {}, {}, {}, Single, {}, Own-child, White, {}, {}, {}, {}, {}, {}"


def row(age: int, work: str, sex: str, label: str, country: str = "Cuba") -> str:
    """One line; numbers but the age are constant."""
    return NUMBERS.format(age, work, 7, "Masters", 14, "Sales", sex, 0, 0, 40, country, label)


TRAIN = "\n".join(
    [
        row(20, "Private", "Male", "<=50K"),
        row(40, "State-gov", "Female", ">50K"),
        row(60, "?", "Male", ">50K"),
        row(60, "Private", "Male", ">50K", country="Peru"),
        "",
        "",
    ]
)
TEST = "\n".join(
    [
        "|1x3 Cross validator",
        row(40, "Private", "Female", "<=50K."),
        row(30, "Private", "Male", ">50K.", country="?"),
        row(80, "State-gov", "Male", ">50K."),
        "",
    ]
)


@dataclass(frozen=True)
class Tiny(Adult):
    """The files above."""

    @property
    def checksums(self) -> Mapping[str, str]:
        """The files' checksums."""
        texts = {"adult.data": TRAIN, "adult.test": TEST}
        return {
            name: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in texts.items()
        }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with both files."""
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text(TRAIN)
    (tmp_path / "adult" / "adult.test").write_text(TEST)
    return tmp_path


def test_the_quirks_of_the_originals_are_no_rows(root: Path) -> None:
    """Rows with "?" are left out; the test part's first line, dots and last line do no harm."""
    data = Tiny().load(root, 0)

    assert data.train.targets.tolist() == [0, 1, 1]
    assert data.test.targets.tolist() == [0, 1]
    assert (data.task, data.outputs) == ("classification", 2)


def test_categories_are_flags_and_numbers_are_standardised_by_the_training_part(root: Path) -> None:
    """Work 2, sex 2, country 2 and five constant categories; ages 20, 40, 60; the rest constant."""
    data = Tiny().load(root, 0)

    flags, numbers = data.train.inputs[:, :-6], data.train.inputs[:, -6:]
    deviation = np.std([20, 40, 60])
    assert data.input_shape == (11 + 6,)
    assert flags.sum(1).tolist() == [8.0] * 3 and set(flags.flatten().tolist()) == {0.0, 1.0}
    assert flags[:, :2].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert numbers[:, 0].tolist() == pytest.approx([-20 / deviation, 0.0, 20 / deviation])
    assert numbers[:, 1:].abs().max() == 0.0
    assert data.test.inputs[:, -6].tolist() == pytest.approx([0.0, 40 / deviation])


def test_raw_numbers_are_those_of_the_files(root: Path) -> None:
    """Ages in years, beside the same flags."""
    raw, standardised = (Tiny(numbers=one).load(root, 0) for one in ("raw", "standardised"))

    assert raw.train.inputs[:, -6:].tolist()[0] == [20.0, 7.0, 14.0, 0.0, 0.0, 40.0]
    assert raw.test.inputs[:, -6].tolist() == [40.0, 80.0]
    assert raw.train.inputs[:, :-6].equal(standardised.train.inputs[:, :-6])


def test_a_damaged_or_absent_file_is_refused(root: Path) -> None:
    """The checksum that should be is named, or what to put where."""
    (root / "adult" / "adult.test").write_text(TEST + " ")
    with pytest.raises(ValueError, match=r"adult\.test is damaged"):
        Tiny().load(root, 0)
    (root / "adult" / "adult.test").unlink()
    with pytest.raises(DataMissing, match=r"put adult\.data and adult\.test into"):
        Tiny().load(root, 0)


@pytest.mark.data
def test_the_real_files_have_the_published_sizes() -> None:
    """30,162 and 15,060 rows of 104 features, a quarter of them above 50,000 dollars."""
    data = Adult().load(Path(os.environ["SIMFL_DATA"]), 0)

    assert data.train.inputs.shape == (30_162, 104)
    assert data.test.inputs.shape == (15_060, 104)
    assert int(data.train.targets.sum()) == 7_508
    assert float(data.train.inputs[:, -6:].mean(0).abs().max()) < 1e-6
