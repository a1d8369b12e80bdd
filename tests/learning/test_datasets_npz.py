"""The data set `npz`: what becomes of each kind of array, and errors that name the key."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simfl.common.files import DataMissing
from simfl.learning.datasets.npz import Npz


def arrays(**changed: Any) -> dict[str, Any]:
    """A sound set of 4 training and 2 test rows, with changes; None leaves a key out."""
    sound = {
        "x_train": np.arange(4 * 2 * 3 * 3, dtype=np.uint8).reshape(4, 2, 3, 3),
        "y_train": np.array([0, 1, 2, 0]),
        "x_test": np.zeros((2, 2, 3, 3), dtype=np.uint8),
        "y_test": np.array([2, 1], dtype=np.uint8),
    }
    return {key: value for key, value in (sound | changed).items() if value is not None}


def write(folder: Path, **changed: Any) -> Npz:
    """The data set of a file with `arrays`, by its path relative to the root `folder`."""
    np.savez(folder / "set.npz", **arrays(**changed))
    return Npz("set.npz")


def test_uint8_images_become_float_planes(tmp_path: Path) -> None:
    """Bytes (rows, height, width, channels) become (rows, channels, height, width) in [0, 1]."""
    data = write(tmp_path).load(tmp_path, 1)

    assert data.input_shape == (3, 2, 3)
    assert data.train.inputs.dtype == torch.float32
    # row 1, height 1, width 2, channel 0: 18 + 9 + 6 + 0
    assert float(data.train.inputs[1, 0, 1, 2]) == pytest.approx(33 / 255)
    assert data.train.targets.tolist() == [0, 1, 2, 0]
    assert (data.task, data.outputs, data.natural) == ("classification", 3, None)


def test_grey_images_get_a_channel(tmp_path: Path) -> None:
    """(rows, height, width) of uint8 becomes one channel."""
    data = write(
        tmp_path,
        x_train=np.full((4, 5, 6), 255, np.uint8),
        x_test=np.zeros((2, 5, 6), np.uint8),
    ).load(tmp_path, 1)

    assert data.input_shape == (1, 5, 6)
    assert bool((data.train.inputs == 1).all())


def test_real_inputs_are_taken_as_they_are(tmp_path: Path) -> None:
    """Tables and planes of real numbers are neither scaled nor turned."""
    table = np.array([[1.5, -2], [3, 4], [5, 6], [7, 8]])

    data = write(tmp_path, x_train=table, x_test=np.zeros((2, 2))).load(tmp_path, 1)

    assert data.train.inputs.tolist() == table.tolist()


@pytest.mark.parametrize("shape", [(), (2,)])
def test_real_targets_are_a_regression(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Real targets have one column per value."""
    data = write(tmp_path, y_train=np.ones((4, *shape)), y_test=np.ones((2, *shape))).load(
        tmp_path, 1
    )

    assert (data.task, data.outputs) == ("regression", shape[0] if shape else 1)
    assert data.train.targets.shape == (4, data.outputs)
    assert data.train.targets.dtype == torch.float32


@pytest.mark.parametrize("owners", [[30, 10, 30, 20], ["c", "a", "c", "b"]])
def test_owners_are_numbered_in_order(tmp_path: Path, owners: list[Any]) -> None:
    """client_train may be of any sortable type."""
    data = write(tmp_path, client_train=np.array(owners)).load(tmp_path, 1)

    assert data.natural is not None and data.natural.tolist() == [2, 0, 2, 1]


def test_other_keys_are_ignored(tmp_path: Path) -> None:
    """A file may hold more, even what cannot be read without unpickling."""
    extra = np.array([{"a": 1}], dtype=object)

    assert len(write(tmp_path, class_names=extra).load(tmp_path, 1).train) == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_test": None}, r"has no y_test; found x_train, y_train, x_test"),
        ({"y_train": None, "x_test": None}, r"has no y_train, x_test"),
        (
            {"x_test": np.full((2, 3, 2, 3), 200)},
            "x_train has images of uint8, .* x_test numbers of type int64 beyond these",
        ),
        (
            {"x_train": np.full((4, 3, 2, 3), -0.5)},
            "x_test has images of uint8, .* x_train numbers of type float64 beyond these",
        ),
        ({"y_train": np.array([0, 1])}, r"x_train has 4 rows, y_train the shape \(2,\)"),
        ({"x_test": np.zeros((2, 9, 9, 3), np.uint8)}, "x_train and x_test differ in the shape"),
        ({"x_test": np.zeros((2, 3, 9, 9), np.uint8)}, r"x_test has the shape \(2, 3, 9, 9\) and"),
        ({"x_train": np.zeros(4)}, r"x_train: found shape \(4,\)"),
        ({"x_train": np.array([["a"]] * 4)}, "x_train has shape .* type <U1"),
        ({"x_train": np.array([[np.nan]] * 4)}, "x_train: row 0, value 0 is nan, accepted: finite"),
        ({"x_test": np.zeros((0, 2, 3, 3), np.uint8), "y_test": np.zeros(0, int)}, "x_test is em"),
        (
            {"y_train": np.array([0, -1, 1, 2])},
            "y_train: row 1 holds the label -1, accepted: class indices",
        ),
        ({"y_train": np.zeros((4, 1), int)}, r"y_train has shape \(4, 1\)"),
        ({"y_test": np.array([0.0, 1.0])}, "y_test has .* accepted: class indices"),
        ({"y_train": np.array([0, 1, 2, np.inf])}, "y_train: row 3, value 0 is inf"),
        ({"client_train": np.array([1, 2])}, "client_train has shape .* the 4 training rows"),
        ({"x_train": np.array([{}] * 4, dtype=object)}, "x_train cannot be read: Object arr"),
        ({"y_train": np.array([0, 1, 2, 10**9])}, "row 3 holds the label 1000000000, .* to 65,535"),
        ({"y_train": np.array([0, 1, 2, 2**64 - 1], np.uint64)}, "row 3 holds the label 18446744"),
        ({"y_test": np.array([4, 1])}, "the test set has the class 4, but the training set has no"),
        ({"x_train": np.zeros((4, 0)), "x_test": np.zeros((2, 0))}, "at least one feature"),
        ({"x_train": np.zeros((4, 0, 3, 3), np.uint8)}, "at least one feature"),
        ({"x_train": np.array(3.0)}, r"x_train: found shape \(\)"),
        ({"y_train": np.array(3)}, r"y_train the shape \(\)"),
        ({"y_train": np.array([True] * 4)}, "type bool, accepted: class indices"),
        ({"x_train": np.full((4, 1), 1e300), "x_test": np.ones((2, 1))}, "row 0, value 0 is inf"),
        ({"x_train": np.full((4, 1), 1j)}, "type complex128, accepted: numbers"),
        ({"y_train": np.zeros((4, 0)), "y_test": np.zeros((2, 0))}, "accepted: real numbers"),
        ({"y_train": np.zeros((4, 2)), "y_test": np.zeros(2)}, "differ in the values per row"),
        ({"client_train": np.array([0, np.nan, 1, 2])}, "client_train has NaN"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """What does not fit is said by file and key."""
    with pytest.raises(ValueError, match=rf"set\.npz.*{message}"):
        write(tmp_path, **changed).load(tmp_path, 1)


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes) -> None:
    """Any other file is refused with its name."""
    (tmp_path / "set.npz").write_bytes(content)

    with pytest.raises(ValueError, match=r"set\.npz is not a \.npz archive"):
        Npz("set.npz").load(tmp_path, 1)


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    """A .npy file under another name is refused too."""
    with (tmp_path / "set.npz").open("wb") as file:
        np.save(file, np.zeros(3))

    with pytest.raises(ValueError, match=r"is not a \.npz archive"):
        Npz("set.npz").load(tmp_path, 1)


def test_an_array_before_an_archive_is_no_archive(tmp_path: Path) -> None:
    """A .npy file with an archive behind it is what its beginning says."""
    write(tmp_path)
    file, array = tmp_path / "set.npz", io.BytesIO()
    np.save(array, np.zeros(3))
    file.write_bytes(array.getvalue() + file.read_bytes())

    with pytest.raises(ValueError, match=r"is not a \.npz archive"):
        Npz("set.npz").load(tmp_path, 1)


def test_an_absent_file_says_what_to_put_where(tmp_path: Path) -> None:
    """The error names the path, the keys and the ways to name a data root."""
    with pytest.raises(DataMissing, match=r"no file .*x_train, y_train.*--data-root, SIMFL_DATA"):
        Npz("set.npz").load(tmp_path, 1)


def test_an_absolute_path_needs_no_root(tmp_path: Path) -> None:
    """The data root is for relative paths."""
    write(tmp_path)

    assert len(Npz(str(tmp_path / "set.npz")).load(None, 1).test) == 2


def test_a_damaged_archive_names_the_key(tmp_path: Path) -> None:
    """A flipped byte inside an array is found by the archive's own checksum."""
    write(tmp_path)
    file = tmp_path / "set.npz"
    content = bytearray(file.read_bytes())
    content[content.index(b"x_train.npy") + 200] ^= 1
    file.write_bytes(content)

    with pytest.raises(ValueError, match=r"set\.npz: x_train cannot be read"):
        Npz("set.npz").load(tmp_path, 1)


def rewritten(file: Path, key: str, content: bytes, compression: int) -> None:
    """The archive with other bytes in place of one member."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, held in members.items():
            archive.writestr(name, content if name == f"{key}.npy" else held)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_terabytes_is_refused_unread(tmp_path: Path, compression: int) -> None:
    """An array is as large as its member of the archive, or nothing is allocated for it."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    write(tmp_path)
    rewritten(tmp_path / "set.npz", "x_train", header.getvalue() + bytes(64), compression)

    with pytest.raises(ValueError, match=r"x_train .* claims 8,000,000,000,000 bytes .* holds 64"):
        Npz("set.npz").load(tmp_path, 1)


def test_an_archive_that_claims_more_than_deflate_can_hold_is_refused(tmp_path: Path) -> None:
    """The sizes in the archive's own directory are not believed either."""
    write(tmp_path)
    rewritten(tmp_path / "set.npz", "y_train", bytes(500), zipfile.ZIP_DEFLATED)
    content = bytearray((tmp_path / "set.npz").read_bytes())
    directory = content.rindex(b"y_train.npy") - 46
    content[directory + 24 : directory + 28] = (2**31).to_bytes(4, "little")
    (tmp_path / "set.npz").write_bytes(content)

    with pytest.raises(ValueError, match=r"y_train .* claims 2,147,483,648 bytes, more than"):
        Npz("set.npz").load(tmp_path, 1)


def test_an_array_compressed_in_another_way_is_refused(tmp_path: Path) -> None:
    """What bzip2 and LZMA can hold has no bound."""
    write(tmp_path)
    rewritten(tmp_path / "set.npz", "none", b"", zipfile.ZIP_BZIP2)

    with pytest.raises(ValueError, match="x_train cannot be read: found a compression that numpy"):
        Npz("set.npz").load(tmp_path, 1)
