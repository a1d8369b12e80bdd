"""Hugging Face's data sets and models, from the disk; skipped where its packages are absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import simfl
from simfl.assembly.assemble import assemble
from simfl.common.files import TracePath
from simfl.learning.datasets.huggingface import Huggingface
from simfl.learning.models.base import as_module
from simfl.learning.models.transformers_model import TransformersModel
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

ABSENT = "needs the optional packages of simfl[huggingface]"
BERT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}
GPT: dict[str, Any] = {
    "model_type": "gpt2",
    "vocab_size": 30,
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": None,
    "eos_token_id": None,
}
VIT: dict[str, Any] = {
    "model_type": "vit",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 1,
}


@pytest.fixture
def library() -> Any:
    """The package datasets."""
    return pytest.importorskip("datasets", reason=ABSENT)


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., TransformersModel]:
    """A model of a configuration, written to a folder."""
    pytest.importorskip("transformers", reason=ABSENT)

    def made(configuration: dict[str, Any], **settings: Any) -> TransformersModel:
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(configuration))
        return TransformersModel(TracePath(folder), **settings)

    return made


def rows(library: Any, count: int = 12) -> Any:
    """Images of a grey value, classes, and users in turn."""
    image = pytest.importorskip("PIL.Image")
    pixels = [np.full((6, 4), 20 * number, dtype=np.uint8) for number in range(count)]
    return library.Dataset.from_dict(
        {
            "image": [image.fromarray(one) for one in pixels],
            "label": [number % 3 for number in range(count)],
            "user": [f"user {number % 4}" for number in range(count)],
            "x": [float(number) for number in range(count)],
            "tokens": [[number, 2, 1] for number in range(count)],
            "ragged": [[1] * (1 + number % 2) for number in range(count)],
            "words": ["some text"] * count,
        },
        features=library.Features(
            {
                "image": library.Image(),
                "label": library.ClassLabel(num_classes=5),
                "user": library.Value("string"),
                "x": library.Value("float64"),
                "tokens": library.List(library.Value("int64")),
                "ragged": library.List(library.Value("int64")),
                "words": library.Value("string"),
            }
        ),
    )


def test_a_saved_folder_and_files_are_the_same_data(library: Any, tmp_path: Path) -> None:
    """With parts by name; classes are those that the label's column declares."""
    whole = rows(library)
    test = whole.select(range(3))
    library.DatasetDict(train=whole, valid=test).save_to_disk(tmp_path / "saved")
    (tmp_path / "files").mkdir()
    whole.select(range(5)).to_parquet(tmp_path / "files" / "train-00000-of-00002.parquet")
    whole.select(range(5, 12)).to_parquet(tmp_path / "files" / "train-00001-of-00002.parquet")
    test.to_parquet(tmp_path / "files" / "valid.parquet")
    settings: dict[str, Any] = {"inputs": ("image",), "label": "label", "owner": "user"}

    for path in ("saved", "files"):
        data = Huggingface(path, **settings, test="valid").load(tmp_path, 1)

        assert data.train.inputs.shape == (12, 1, 6, 4) and data.test.inputs.shape == (3, 1, 6, 4)
        assert data.train.inputs[:, 0, 0, 0].tolist() == pytest.approx(np.arange(12) * 20 / 255)
        assert data.train.targets.tolist() == [0, 1, 2] * 4
        assert (data.task, data.outputs) == ("classification", 5)
        assert data.natural is not None and data.natural.tolist() == [0, 1, 2, 3] * 3


def test_columns_of_numbers_and_lists(library: Any, tmp_path: Path) -> None:
    """Side by side, or as they are; a share is held out; images are scaled to one size."""
    whole = rows(library)
    whole.to_parquet(tmp_path / "a.parquet")
    whole.save_to_disk(tmp_path / "saved")

    tokens = Huggingface("a.parquet", ("tokens",), "user").load(tmp_path, 1)
    side = Huggingface("saved", ("x", "label"), "x", test_share=0.25, owner="x").load(tmp_path, 1)
    scaled = Huggingface("saved", ("image",), "label", size=2).load(tmp_path, 1)
    arrow = next((tmp_path / "saved").glob("*.arrow"))
    read = Huggingface(str(arrow), ("tokens",), "label").load(None, 1)

    assert tokens.input_shape == (3,) and tokens.outputs == 4
    assert side.train.inputs.shape == (9, 2) and side.task == "regression"
    assert torch.equal(side.train.inputs[:, 0], side.train.targets[:, 0])
    assert scaled.input_shape == (1, 2, 2)
    assert len(read.train) + len(read.test) == 12


@pytest.mark.parametrize("absent", [["ann", None], [True, None]])
def test_no_value_is_no_class_and_no_owner(library: Any, tmp_path: Path, absent: list[Any]) -> None:
    """As a null of text or of truth would be: "None"."""
    rows = {"x": list(range(20)), "kind": absent * 10, "y": [0, 1] * 10}
    library.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "rows"))

    for settings in ({"label": "kind"}, {"label": "y", "owner": "kind"}):
        dataset = Huggingface(**{"path": "rows", "inputs": ("x",), **settings})
        with pytest.raises(ValueError, match=r": column 'kind' has no value in row 2$"):
            dataset.load(tmp_path, 1)


@pytest.mark.parametrize(
    ("column", "cells", "settings", "message"),
    [
        ("y", ["ill", "well", "ill ", "well"], {}, "'ill' in row 1 and 'ill ' in row 3, which"),
        ("owner", ["ann", "ben", "ben", " ann"], {}, "'ann' in row 1 and ' ann' in row 4, which"),
        ("y", ["3,14", "2", "1.5", "0"], {}, "numbers written as text, such as '3,14' in row"),
        ("y", ["3,14", "2", "1.5", "0"], {"task": "classification"}, None),
        ("y", ["ill", "well", "ill", "well"], {}, None),
    ],
)
def test_text_is_refused_as_in_tables(
    library: Any,
    tmp_path: Path,
    column: str,
    cells: list[str],
    settings: dict[str, Any],
    message: str | None,
) -> None:
    """Classes, or owners, that differ in blanks only, and numbers that would be classes."""
    rows = {"x": list(range(20)), "y": [0, 1] * 10, "owner": ["u", "v"] * 10, column: cells * 5}
    library.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "rows"))
    dataset = Huggingface("rows", inputs=("x",), label="y", owner="owner", **settings)

    if message is None:
        assert dataset.load(tmp_path, 1).outputs == len(set(cells))
        return
    with pytest.raises(ValueError, match=rf"^(label|owner): column '{column}' has ") as told:
        dataset.load(tmp_path, 1)
    assert message in str(told.value)


def test_blanks_in_one_of_two_parts_are_refused(library: Any, tmp_path: Path) -> None:
    """A class of the test part would be unknown in training."""
    parts = [
        library.Dataset.from_dict({"x": [1, 2], "y": labels})
        for labels in (["u", "v"], ["u", "v "])
    ]
    library.DatasetDict(train=parts[0], test=parts[1]).save_to_disk(str(tmp_path / "rows"))

    with pytest.raises(ValueError, match=r"^label: column 'y' has 'v' in row 2 and 'v ' in row 2"):
        Huggingface("rows", inputs=("x",), label="y", test="test").load(tmp_path, 1)


def test_images_of_16_bits_are_not_all_white(library: Any, tmp_path: Path) -> None:
    """65,535 is white, and half of it grey."""
    from PIL import Image

    shades = [Image.fromarray(np.full((2, 2), level, np.uint16)) for level in (0, 32896, 65535)]
    features = library.Features({"x": library.Image(), "y": library.Value("int64")})
    saved = library.Dataset.from_dict({"x": shades * 5, "y": [0, 1, 2] * 5}, features=features)
    saved.save_to_disk(str(tmp_path / "rows"))

    data = Huggingface(path="rows", inputs=("x",), label="y").load(tmp_path, 1)

    assert data.input_shape == (1, 2, 2)
    levels = data.train.inputs[:, 0, 0, 0].numpy()
    assert levels.tolist() == pytest.approx((data.train.targets.numpy() * 128 / 255).clip(0, 1))


def test_grey_images_with_transparency_are_grey(library: Any, tmp_path: Path) -> None:
    """They have one channel, as grey ones without; a column is named once."""
    from PIL import Image

    shades = [Image.new("LA", (2, 2), (level, 128)) for level in (0, 255)]
    features = library.Features({"x": library.Image(), "y": library.Value("int64")})
    saved = library.Dataset.from_dict({"x": shades * 5, "y": [0, 1] * 5}, features=features)
    saved.save_to_disk(str(tmp_path / "rows"))

    data = Huggingface(path="rows", inputs=("x",), label="y").load(tmp_path, 1)

    assert data.input_shape == (1, 2, 2)
    assert torch.equal(data.train.inputs[:, 0, 0, 0].long(), data.train.targets)
    with pytest.raises(ValueError, match="inputs: found 'x' twice, accepted: every column once"):
        Huggingface(path="rows", inputs=("x", "x"), label="y")


@pytest.mark.parametrize(
    ("path", "settings", "message"),
    [
        ("absent", {}, "^path: no file .*absent; put it there"),
        (
            "a.parquet",
            {"test": "test"},
            "^test: .* has one part; accepted: null, which takes test_share",
        ),
        ("dict", {"train": "tain"}, "^train: no part 'tain', did you mean 'train'"),
        (".", {"train": "c"}, "^train: no .parquet or .arrow file in .* begins with 'c'; found: a"),
        ("a.parquet", {"inputs": ("imag",)}, "^inputs: no column 'imag', did you mean 'image'"),
        ("a.parquet", {"inputs": ("words",)}, "^inputs: column 'words' is text; accepted: images"),
        ("a.parquet", {"inputs": ("ragged",)}, "^inputs: column 'ragged' has lists of different"),
        ("a.parquet", {"inputs": ("x", "tokens")}, "^inputs: column 'tokens' has lists; accepted"),
        ("a.parquet", {"label": "tokens"}, "^label: column 'tokens' has lists, accepted: one"),
        ("a.parquet", {"owner": "who"}, "^owner: no column 'who'"),
        ("b.arrow", {}, "^path: .*b.arrow cannot be read"),
    ],
)
def test_what_is_no_such_data(
    library: Any, tmp_path: Path, path: str, settings: dict[str, Any], message: str
) -> None:
    """Errors begin with their key."""
    rows(library).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.arrow").write_bytes(b"nothing")
    if path == "dict":
        library.DatasetDict(train=rows(library)).save_to_disk(tmp_path / "dict")

    with pytest.raises(ValueError, match=message):
        Huggingface(path, **{"inputs": ("x",), "label": "label", **settings}).load(tmp_path, 1)


@pytest.mark.parametrize(
    ("configuration", "head", "shape", "outputs", "values"),
    [
        # Tables of tokens, places and kinds; four products with biases; two layers between;
        # three normalisations; pooler and head.
        (
            BERT,
            "classification",
            (8,),
            3,
            16 * (30 + 16 + 2) + 4 * 272 + 2 * 512 + 48 + 3 * 32 + 272 + 51,
        ),
        (GPT, "next_token", (8,), 30, 16 * (30 + 16) + 4 * 272 + 2 * 1024 + 80 + 3 * 32),
        (VIT, "classification", (1, 8, 8), 3, None),
    ],
)
def test_size_outputs_and_form(
    model: Callable[..., TransformersModel],
    configuration: dict[str, Any],
    head: str,
    shape: tuple[int, ...],
    outputs: int,
    values: int | None,
) -> None:
    """Logits come out, of the last place where the next token is asked for; by the seed; jobs are
    trained one after the other, and their work is known."""
    given = model(configuration, head=head)
    network = Network(partial(as_module, given, shape, outputs), shape, Objective("classification"))
    first, again, other = network.initial(1), network.initial(1), network.initial(2)
    inputs = torch.ones(2, *shape)

    found = network.call(first, inputs, training=False)[0]

    assert found.shape == (2, outputs)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert network.kernel_family == "loop" and network.forward_flops > 0
    if values is not None:
        assert network.size_bytes == 4 * values
        assert given.tokens == 30
    if head == "next_token":
        changed = inputs.clone()
        changed[:, -1] = 5
        assert not torch.allclose(network.call(first, changed, training=False)[0], found)


def test_the_work_of_bert_by_hand(model: Callable[..., TransformersModel]) -> None:
    """8 places: four products of 16x16, two of 16x32, the attention's own, pooler and head."""
    given = model(BERT)
    network = Network(partial(as_module, given, (8,), 3), (8,), Objective("classification"))

    dense = 8 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 8 * 8 * 16 + 16 * 16 + 16 * 3
    assert network.work.dense == 2 * dense
    assert network.work.embedding == 2 * 16 * (30 + 16 + 2)


def test_local_weights_are_the_folders_and_count_for_the_key(
    model: Callable[..., TransformersModel], tmp_path: Path
) -> None:
    """All but the head, which is new; another file of weights is another run."""
    network = Network(partial(as_module, model(BERT), (8,), 3), (8,), Objective("classification"))
    file = tmp_path / "model" / "model.safetensors"
    saved = {name.removeprefix("model."): one for name, one in network.initial(7).items()}
    save_file(saved, file, metadata={"format": "pt"})
    local = model(BERT, weights="local")
    loaded = Network(partial(as_module, local, (8,), 5), (8,), Objective("classification"))

    begun = loaded.initial(1)

    for name, tensor in begun.items():
        kept = saved[name.removeprefix("model.")]
        assert ("classifier" in name) == (tensor.shape != kept.shape)
        assert "classifier" in name or torch.equal(tensor, kept)
    before = local.content(), model(BERT).content()
    save_file({**load_file(file), "bert.pooler.dense.bias": torch.ones(16)}, file)
    assert local.content() != before[0] and model(BERT).content() == before[1]


def test_a_run_of_both(
    library: Any, model: Callable[..., TransformersModel], tmp_path: Path
) -> None:
    """The loss falls to nothing; a configuration with other tokens, and a model for which
    the data are no tokens, are refused at their key."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 2, 80)
    tokens = generator.integers(1, 15, (80, 6)) + 14 * classes[:, None]
    library.Dataset.from_dict(
        {"tokens": tokens.tolist(), "label": classes.tolist(), "user": [0, 1] * 40}
    ).save_to_disk(tmp_path / "saved")
    model(BERT)
    content: dict[str, Any] = {
        "dtype": "float32",
        "data": {
            "name": "huggingface",
            "path": str(tmp_path / "saved"),
            "inputs": ["tokens"],
            "label": "label",
            "owner": "user",
            "partition": "natural",
        },
        "model": {"name": "transformers", "path": str(tmp_path / "model")},
        "population": {"clients": 2, "edges": 1},
        "algorithm": {
            "name": "fedavg",
            "local": {"batch_size": 8, "optimizer": "adam", "learning_rate": 0.01},
        },
    }

    run = simfl.run(small(**content), tmp_path / "run")

    assert run.rounds["loss"].iloc[-1] < 0.1 < run.rounds["loss"].max()
    first = assemble(small(**content)).root
    (tmp_path / "model" / "config.json").write_text(json.dumps({**BERT, "hidden_act": "relu"}))
    assert assemble(small(**content)).root != first
    (tmp_path / "model" / "config.json").write_text(json.dumps({**BERT, "vocab_size": 20}))
    with pytest.raises(ScenarioError, match=r"model: tokens: found 20, of which 28"):
        assemble(small(**content))
    (tmp_path / "model" / "config.json").write_text(json.dumps({**GPT, "vocab_size": 31}))
    content["model"]["head"] = "next_token"
    with pytest.raises(ScenarioError, match=r"model.head: next_token has the 31 tokens of config"):
        assemble(small(**content))


def test_absent_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs them."""
    (tmp_path / "config.json").write_text("{}")
    for module in ("datasets.huggingface", "models.transformers_model"):
        monkeypatch.setattr(f"simfl.learning.{module}.find_spec", lambda _: None)

    with pytest.raises(ValueError, match=r"needs the package datasets, .* 'simfl\[huggingface\]'"):
        Huggingface(str(tmp_path), ("x",), "y").load(None, 1)
    with pytest.raises(ValueError, match=r"needs the package transformers, .*\[huggingface\]'"):
        TransformersModel(TracePath(tmp_path)).build((4,), 2)
    with pytest.raises(ValueError, match=r"^path: no config.json in"):
        TransformersModel(TracePath(tmp_path / "absent")).build((4,), 2)
