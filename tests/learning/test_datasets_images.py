"""Public image sets and image folders, read from tiny files that the tests write."""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from simfl.common.files import DataMissing
from simfl.learning.datasets.base import Dataset
from simfl.learning.datasets.cifar10 import Cifar10
from simfl.learning.datasets.cinic10 import Cinic10
from simfl.learning.datasets.fashion_mnist import FashionMnist
from simfl.learning.datasets.idx import FILES, Checksums, IdxImages, parse_idx
from simfl.learning.datasets.image_folder import ImageFolder
from simfl.learning.datasets.mnist import Mnist
from simfl.learning.datasets.npz import Npz
from simfl.learning.datasets.svhn import Svhn
from simfl.learning.vision import torchvision


def idx(values: np.ndarray) -> bytes:
    """The unpacked idx file of a uint8 array."""
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def md5(content: bytes) -> str:
    """As the published lists give it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Tiny(IdxImages):
    """A set of 20 training and 10 test images that `write_tiny` lays down."""

    @property
    def folder(self) -> str:
        """Under the data root."""
        return "Tiny"

    @property
    def checksums(self) -> Mapping[str, Checksums]:
        """The checksums of the files made by `contents`."""
        return {
            name: Checksums(md5(gzip.compress(content, mtime=0)), md5(content))
            for name, content in contents().items()
        }


def contents() -> dict[str, bytes]:
    """The four unpacked files: pixel (r, c) of image i is i + r * 3 + c; labels go round."""
    files = {}
    for (images, labels), rows in zip(FILES.values(), (20, 10), strict=True):
        pixels = np.arange(rows).reshape(-1, 1, 1) + np.arange(6).reshape(1, 2, 3)
        files[images] = idx(pixels.astype(np.uint8))
        files[labels] = idx((np.arange(rows) % 5).astype(np.uint8))
    return files


def write_tiny(root: Path, packed: bool) -> None:
    """Lay the four files down under the data root."""
    raw = root / "Tiny" / "raw"
    raw.mkdir(parents=True)
    for name, content in contents().items():
        if packed:
            (raw / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (raw / name).write_bytes(content)


def listing(folder: Path) -> list[tuple[str, int]]:
    """Every file under `folder` with its time of change."""
    return sorted((str(file), file.stat().st_mtime_ns) for file in folder.rglob("*"))


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_in_place(tmp_path: Path, packed: bool) -> None:
    """Packed or not, images become (1, height, width) in [0, 1], and nothing is written."""
    write_tiny(tmp_path, packed)
    before = listing(tmp_path)

    data = Tiny().load(tmp_path, 1)

    assert listing(tmp_path) == before
    assert (len(data.train), len(data.test), data.input_shape) == (20, 10, (1, 2, 3))
    assert float(data.train.inputs[7, 0, 1, 2]) == pytest.approx((7 + 3 + 2) / 255)
    assert data.test.targets.tolist() == [0, 1, 2, 3, 4] * 2
    assert (data.train.inputs.dtype, data.train.targets.dtype) == (torch.float32, torch.int64)


def test_subsets_are_stratified_draws_of_the_seed(tmp_path: Path) -> None:
    """10 of 20 and 5 of 10 images: two and one of each label, and the seed decides which."""
    write_tiny(tmp_path, packed=True)
    small = Tiny(examples=10, test_examples=5)

    first, again, other = (small.load(tmp_path, seed) for seed in (1, 1, 2))

    assert torch.bincount(first.train.targets).tolist() == [2] * 5
    assert torch.bincount(first.test.targets).tolist() == [1] * 5
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert not torch.equal(first.train.inputs, other.train.inputs)


def test_a_subset_cannot_exceed_the_set(tmp_path: Path) -> None:
    """More rows than there are is an error that names the key."""
    write_tiny(tmp_path, packed=True)

    with pytest.raises(ValueError, match="test_examples: found 11, accepted: at most 10"):
        Tiny(test_examples=11).load(tmp_path, 1)


@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_file_is_refused(tmp_path: Path, packed: bool) -> None:
    """One changed byte does not pass the checksum."""
    write_tiny(tmp_path, packed)
    name = FILES["test"][0] + (".gz" if packed else "")
    file = tmp_path / "Tiny" / "raw" / name
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)

    with pytest.raises(ValueError, match=f"{name} is damaged: its MD5 is"):
        Tiny().load(tmp_path, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00\x00\x00\x00", "not an idx file of unsigned bytes"),
        (b"\x00\x00\x08\x02\x00\x00", "cut off"),
        (b"\x00\x00\x08\x04" + b"\x00\x01\x00\x00" * 4, "holds 0 values"),  # 2^64 of them
        (b"\x00\x00\x08\x01\x00\x00\x00\x03\x01\x02", r"holds 2 values, its header says \(3,\)"),
    ],
)
def test_malformed_idx(content: bytes, message: str) -> None:
    """A file that is not what its header says is refused with its name."""
    with pytest.raises(ValueError, match=f"labels .*{message}|labels {message}"):
        parse_idx(content, "labels")


PUBLIC: list[tuple[Dataset, str]] = [
    (Mnist(), "train-images-idx3-ubyte.*MNIST/raw"),
    (FashionMnist(), "train-images-idx3-ubyte.*FashionMNIST/raw"),
    (Cifar10(), "cifar-10-python.tar.gz.*cifar-10-batches-py"),
    (Svhn(), "train_32x32.mat and test_32x32.mat"),
    (Cinic10(), "CINIC-10.tar.gz"),
]


@pytest.mark.parametrize(("dataset", "message"), PUBLIC, ids=lambda one: type(one).__name__)
def test_absent_data_say_what_to_put_where(dataset: Dataset, message: str, tmp_path: Path) -> None:
    """With an empty root the error names files and place, and nothing is made there."""
    with pytest.raises(DataMissing, match=f"put .*{message}"):
        dataset.load(tmp_path, 1)

    assert listing(tmp_path) == []


@pytest.mark.parametrize(("dataset", "message"), PUBLIC, ids=lambda one: type(one).__name__)
def test_without_a_root_the_error_says_how_to_name_one(dataset: Dataset, message: str) -> None:
    """The three ways to name a data root."""
    with pytest.raises(DataMissing, match=f"{message}.*--data-root, SIMFL_DATA or data.root"):
        dataset.load(None, 1)


@pytest.mark.parametrize(
    ("dataset", "name"), [(Mnist(), "MNIST"), (FashionMnist(), "FashionMNIST")]
)
def test_checksums_are_torchvisions(dataset: IdxImages, name: str) -> None:
    """The MD5 of the packed files equal torchvision's lists."""
    published = dict(getattr(torchvision().datasets, name).resources)

    found = {f"{file}.gz": sums.packed for file, sums in dataset.checksums.items()}

    assert found == published


def test_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of rows of 3 planes are read through torchvision."""
    kind = torchvision().datasets.CIFAR10
    folder = tmp_path / kind.base_folder
    folder.mkdir()
    rows = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8)
    lists: dict[str, list[list[str]]] = {"train_list": [], "test_list": []}
    for part, name in (("train_list", "data_batch_1"), ("test_list", "test_batch")):
        content = pickle.dumps({"data": rows, "labels": [3, 9]})
        (folder / name).write_bytes(content)
        lists[part].append([name, md5(content)])
    meta = pickle.dumps({"label_names": list("abcdefghij")})
    (folder / "batches.meta").write_bytes(meta)
    for part, names in lists.items():
        monkeypatch.setattr(kind, part, names)
    monkeypatch.setattr(
        kind, "meta", {"filename": "batches.meta", "key": "label_names", "md5": md5(meta)}
    )

    data = Cifar10(examples=2).load(tmp_path, 1)

    assert data.input_shape == (3, 32, 32)
    expected = torch.from_numpy(rows).view(2, 3, 32, 32) / 255
    assert torch.equal(data.train.inputs, expected)
    assert data.test.targets.tolist() == [3, 9]


def test_svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matlab files are read through torchvision; the label 10 is the digit 0."""
    kind = torchvision().datasets.SVHN
    pixels = np.zeros((32, 32, 3, 2), dtype=np.uint8)
    pixels[1, 2, 0, 1] = 255
    split_list = {}
    for split in ("train", "test"):
        file = tmp_path / f"{split}_32x32.mat"
        savemat(file, {"X": pixels, "y": np.array([[10], [7]], dtype=np.uint8)})
        split_list[split] = ["", file.name, md5(file.read_bytes())]
    monkeypatch.setattr(kind, "split_list", split_list)

    data = Svhn().load(tmp_path, 1)

    assert data.train.targets.tolist() == [0, 7]
    assert data.train.inputs.nonzero().tolist() == [[1, 0, 1, 2]]


def paint(folder: Path, size: tuple[int, int], colour: tuple[int, int, int], name: str) -> None:
    """One image of one colour, of `size` (width, height)."""
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(folder / name)


def paint_all(root: Path, parts: tuple[str, ...] = ("train", "test")) -> None:
    """A red cat and a green dog in each part, 4 wide and 2 high."""
    for part in parts:
        paint(root / part / "cat", (4, 2), (255, 0, 0), "1.png")
        paint(root / part / "dog", (4, 2), (0, 255, 0), "1.png")


def test_image_folder(tmp_path: Path) -> None:
    """Folders are classes in alphabetical order, images (3, height, width) in [0, 1]."""
    paint_all(tmp_path / "pets")

    data = ImageFolder("pets").load(tmp_path, 1)

    assert (data.input_shape, data.outputs) == ((3, 2, 4), 2)
    assert data.train.targets.tolist() == data.test.targets.tolist() == [0, 1]
    assert data.train.inputs.mean((2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_image_folder_scales(tmp_path: Path) -> None:
    """With a size, images of any size become squares."""
    paint_all(tmp_path)
    paint(tmp_path / "train" / "cat", (9, 7), (255, 0, 0), "2.png")

    data = ImageFolder(str(tmp_path), size=5).load(None, 1)

    assert data.train.inputs.shape == (3, 3, 5, 5)


def test_an_image_folder_whose_test_set_lacks_a_class(tmp_path: Path) -> None:
    """Labels are those of the training folders."""
    paint_all(tmp_path)
    paint(tmp_path / "train" / "ant", (4, 2), (0, 0, 255), "1.png")

    data = ImageFolder(str(tmp_path)).load(None, 1)

    assert (data.outputs, data.train.targets.tolist()) == (3, [0, 1, 2])
    assert data.test.targets.tolist() == [1, 2]


def other_size(root: Path) -> None:
    """A stray image among the training images."""
    paint(root / "train" / "cat", (9, 7), (255, 0, 0), "2.png")


def other_test_size(root: Path) -> None:
    """A test part of another size."""
    for name in ("cat", "dog"):
        paint(root / "test" / name, (3, 3), (0, 0, 0), "1.png")


def other_class(root: Path) -> None:
    """A class that only the test part has."""
    paint(root / "test" / "emu", (4, 2), (0, 0, 0), "1.png")


def empty_class(root: Path) -> None:
    """A class without an image."""
    (root / "train" / "ant").mkdir()


def truncated(root: Path) -> None:
    """An image that was not written to its end."""
    file = root / "test" / "dog" / "1.png"
    file.write_bytes(file.read_bytes()[:-30])


def no_image(root: Path) -> None:
    """Text under an image's name."""
    (root / "train" / "cat" / "1.png").write_text("meow")


def oversized(root: Path) -> None:
    """A header that claims 3.6 billion pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    check = struct.pack(">I", zlib.crc32(header))
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + check
    content += struct.pack(">I", 4) + b"IDAT" + bytes(8)
    (root / "train" / "cat" / "1.png").write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncated, r"test/dog/1\.png cannot be read as an image"),
        (no_image, r"train/cat/1\.png cannot be read as an image"),
        (oversized, r"train/cat/1\.png cannot be read as an image: .*exceeds limit"),
        (other_size, r"^size: .*2\.png is 7x9, the first image 2x4"),
        (other_test_size, "^size: the training and test images"),
        (other_class, "test: found the classes emu, accepted: those of .*: cat, dog$"),
        (empty_class, "one folder of images per class"),
    ],
)
def test_image_folders_that_do_not_fit(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    """Sizes and classes are checked."""
    paint_all(tmp_path)
    spoil(tmp_path)

    with pytest.raises(ValueError, match=message):
        ImageFolder(str(tmp_path)).load(None, 1)


def test_an_absent_image_folder(tmp_path: Path) -> None:
    """The error names the folder and its layout."""
    paint_all(tmp_path, parts=("train",))

    with pytest.raises(DataMissing, match=r"path: no folder .*test; put images into .*<class>"):
        ImageFolder(str(tmp_path)).load(None, 1)


def test_cinic10(tmp_path: Path) -> None:
    """Training and test folders of the unpacked archive, without the validation part."""
    paint_all(tmp_path / "CINIC-10", ("train", "valid", "test"))

    data = Cinic10().load(tmp_path, 1)

    assert (len(data.train), len(data.test), data.input_shape) == (2, 2, (3, 32, 32))


def test_cinic10_with_another_class_in_its_test_part(tmp_path: Path) -> None:
    """Both parts have the same classes, or the numbers would mean different ones."""
    paint_all(tmp_path / "CINIC-10", ("train", "test"))
    other_class(tmp_path / "CINIC-10")

    with pytest.raises(ValueError, match=r"train has the classes .*, test .*emu"):
        Cinic10().load(tmp_path, 1)


def data_root(inside: str) -> Path:
    """The data root that SIMFL_DATA names, if it holds `inside`; skips the test otherwise."""
    root = Path(os.environ["SIMFL_DATA"])
    if not (root / inside).exists():
        pytest.skip(f"no {inside} under SIMFL_DATA")
    return root


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "folder", "counts"),
    [
        (Mnist(), "MNIST", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        (FashionMnist(), "FashionMNIST", [6000] * 10),
    ],
    ids=["mnist", "fashion_mnist"],
)
def test_real_idx_sets(dataset: Dataset, folder: str, counts: list[int]) -> None:
    """The published label counts, from the original files."""
    data = dataset.load(data_root(f"{folder}/raw"), 1)

    assert torch.bincount(data.train.targets).tolist() == counts
    assert data.test.inputs.shape == (10_000, 1, 28, 28)
    assert float(data.train.inputs.max()) == 1


@pytest.mark.data
def test_real_npz_of_images() -> None:
    """The class-balanced subset of CIFAR-10: 1,000 and 200 images per class."""
    path = "CIFAR10_subset/cifar10_subset_10k_2k.npz"

    data = Npz(path).load(data_root(path), 1)

    assert torch.bincount(data.train.targets).tolist() == [1000] * 10
    assert torch.bincount(data.test.targets).tolist() == [200] * 10
    assert data.input_shape == (3, 32, 32)
    assert data.train.inputs.mean((0, 2, 3)).tolist() == pytest.approx(
        [0.491, 0.482, 0.447], abs=0.01
    )


def test_images_of_16_bits_are_not_all_white(tmp_path: Path) -> None:
    """65,535 is white; what has no largest value is refused."""
    for part in ("train", "test"):
        for kind, level in (("dark", 0), ("grey", 512), ("white", 65535)):
            folder = tmp_path / "photos" / part / kind
            folder.mkdir(parents=True)
            Image.fromarray(np.full((2, 2), level, np.uint16)).save(folder / "one.png")

    shades = ImageFolder("photos").load(tmp_path, 1).train.inputs

    assert shades[:, :, 0, 0].tolist() == [[0.0] * 3, pytest.approx([1 / 255] * 3), [1.0] * 3]
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "photos/test/grey/one.tiff")
    with pytest.raises(ValueError, match=r"one\.tiff cannot be .*: found pixels of 32 bits"):
        ImageFolder("photos").load(tmp_path, 1)
