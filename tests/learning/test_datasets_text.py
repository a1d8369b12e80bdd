"""The data set `text`: windows by hand, owners, and files that are not text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simfl.assembly.assemble import assemble, partitioned_data
from simfl.common.files import DataMissing
from simfl.learning.datasets.text import Text
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

PLAY = """ACT ONE
ANN: a cow.
and a hen.
BEN: no.
ANN: a cow!
"""
SPEAKER = r"([A-Z]+): "


def of(folder: Path, content: str | bytes = "", **settings: Any) -> Text:
    """The data set of a file with this content."""
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / "some.txt").write_bytes(raw)
    return Text(**{"path": "some.txt", **settings})


def test_windows_and_the_next_token_by_hand(tmp_path: Path) -> None:
    """b is the most frequent: token 1; a and c are 2 and 3; d, too rare, is 0. The last third is
    for testing, and no window reaches into it."""
    data = of(tmp_path, "bbbaacdbabca", length=2, vocabulary=4, test_share=1 / 3).load(tmp_path, 1)

    # training bbbaacdb: 1 1 1 2 2 3 0 1; test abca: 2 1 3 2
    assert data.train.inputs.dtype == torch.uint8
    assert data.train.inputs.tolist() == [[1, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 0]]
    assert data.train.targets.tolist() == [1, 2, 2, 3, 0, 1]
    assert data.test.inputs.tolist() == [[2, 1], [1, 3]]
    assert data.test.targets.tolist() == [3, 2]
    assert (data.outputs, data.task) == (4, "classification")


def test_words_steps_and_large_vocabularies(tmp_path: Path) -> None:
    """Words and marks are tokens; every third window is taken; many tokens are real numbers."""
    words = "The cat, the cow and the hen. " * 20
    data = of(tmp_path, words, unit="word", length=4, step=3, vocabulary=300).load(tmp_path, 1)

    inputs = data.train.inputs
    assert inputs.dtype == torch.float32
    assert data.train.targets[0] == inputs[1, 1]  # the fifth word
    assert set(inputs.flatten().tolist()) == set(range(1, 9))
    assert len(data.train) == len(range(0, 144 - 4, 3))


def test_speakers_and_files_are_owners(tmp_path: Path) -> None:
    """Everything that one says belongs together, the name left out; before the first nobody
    speaks; who says too little is left out; another file's speaker is another owner."""
    folder = tmp_path / "plays"
    (folder / "late").mkdir(parents=True)
    (folder / "one.txt").write_text(PLAY)
    (folder / "late" / "two.txt").write_text("ANN: mooooooooooooooooo")
    settings: dict[str, Any] = {"path": "plays", "length": 5, "vocabulary": 30, "test_share": 0.3}

    spoken = Text(**settings, speaker=SPEAKER).load(tmp_path, 1)
    files = Text(**settings).load(tmp_path, 1)

    ann = len("a cow.\nand a hen.\na cow!\n")
    moo = len("mooooooooooooooooo")
    sizes = [size - round(0.3 * size) - 5 for size in (moo, ann)]
    assert spoken.natural is not None and np.bincount(spoken.natural).tolist() == sizes
    assert files.natural is not None and set(files.natural.tolist()) == {0, 1}
    first = spoken.train.inputs[spoken.natural == 0]
    assert len(first.unique()) == 2  # m and o


def test_tests_of_what_nobody_learns_are_left_out(tmp_path: Path) -> None:
    """z follows nothing in the training text."""
    data = of(tmp_path, "ababababab" + "abzab", length=1, test_share=1 / 3).load(tmp_path, 1)

    assert data.test.targets.tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("short", {}, "^length: found 80, accepted: less than the 4 tokens that the longest train"),
        (b"\xff\xfe", {}, "^path: .*some.txt is not text in UTF-8: a byte at offset 0"),
        (PLAY, {"speaker": "("}, r"^speaker: found '\(', which is not a regular expression"),
        (PLAY, {"speaker": "[A-Z]+: "}, "^speaker: .* which has no group"),
        (PLAY, {"speaker": "(Zoe): "}, "^speaker: .* which begins no line"),
        ("ab" * 300, {"path": "other.txt"}, r"^path: no file .*other.txt; put it there"),
    ],
)
def test_what_is_no_such_text(
    tmp_path: Path, content: str | bytes, settings: dict[str, Any], message: str
) -> None:
    """Errors begin with their key."""
    with pytest.raises(ValueError, match=message):
        of(tmp_path, content, **settings).load(tmp_path, 1)


def test_an_empty_folder_and_too_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are refused, by the key to change."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^path: no .txt file"):
        Text("empty").load(tmp_path, 1)
    with pytest.raises(DataMissing):
        Text("absent").load(None, 1)
    monkeypatch.setattr("simfl.learning.datasets.text.MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"^step: found 1, which makes .* accepted: a larger step"):
        of(tmp_path, "ab" * 300, length=5).load(tmp_path, 1)


def test_a_model_takes_so_many_tokens(tmp_path: Path) -> None:
    """Each file's owner is a client; a smaller table is refused, at its key."""
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("abcd" * 10 + "efgh" * 10 * number)
    data = {"name": "text", "path": str(tmp_path), "length": 4, "vocabulary": 9}
    content: dict[str, Any] = {
        "data": {**data, "partition": "natural"},
        "model": {"name": "gru", "tokens": 9, "hidden": 4},
        "population": {"clients": 3, "edges": 1},
    }

    partitioned = partitioned_data(small(**content))

    assert partitioned.num_examples.tolist() == [32 - 4, 64 - 4, 96 - 4]
    with pytest.raises(ScenarioError, match=r"model.tokens: found 8, but the data have .* 8"):
        assemble(small(**{**content, "model": {"name": "gru", "tokens": 8}}))
    noisy = {**content["data"], "noise_variance": [0.0, 0.0, 1e-4], "vocabulary": 300}
    with pytest.raises(ScenarioError, match=r"model.tokens: found 300, but the data .* not whole"):
        assemble(small(**{**content, "data": noisy, "model": {"name": "gru", "tokens": 300}}))
