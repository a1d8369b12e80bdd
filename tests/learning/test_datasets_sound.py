"""What is no data set to learn from is refused before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simfl.assembly.data_partitioning import partition_data
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.sizes import Sizes
from simfl.learning.datasets.sound import require_sound
from simfl.learning.partitions.iid import Iid
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.streams import Streams
from tests.small import small


def examples(rows: int = 4, **changed: Any) -> Examples:
    """Rows of two features and the classes 0, 1, 0, 1, ..., with changes."""
    sound = {"inputs": torch.ones(rows, 2), "targets": torch.arange(rows) % 2}
    return Examples(**(sound | changed))


SOUND = Data(examples(), examples(2), "classification", 2, np.array([0, 0, 1, 1]), examples(2))
NAN = torch.tensor([[1.0, 2.0], [3.0, float("nan")]])


@pytest.mark.parametrize(
    "data",
    [
        SOUND,
        replace(SOUND, outputs=np.int64(2)),
        Data(examples(2, targets=NAN[:1].T), examples(2, targets=NAN[:1].T), "regression", 1),
        Sizes().load(None, 1),
    ],
)
def test_what_can_be_learnt_passes(data: Data) -> None:
    """Classes, a regression, numbers of numpy's types, data without a row."""
    require_sound(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "gave NoneType, accepted: Data"),
        (replace(SOUND, task="ranking"), "task: found 'ranking'"),
        (replace(SOUND, outputs=2.5), "outputs: found 2.5"),
        (replace(SOUND, outputs=0), "outputs: found 0"),
        (replace(SOUND, outputs=10**9), "outputs: found 1000000000, accepted: 1 to 65,536"),
        (replace(SOUND, train=3), "training set: found int, accepted: Examples"),
        (replace(SOUND, test=Examples([[1]], [1])), "test inputs: found list"),
        (replace(SOUND, train=examples(inputs=torch.ones(4, 0))), "at least one feature"),
        (replace(SOUND, train=examples(inputs=torch.ones(4))), r"found shape \(4,\)"),
        (replace(SOUND, test=examples(inputs=torch.ones(4, 3))), "as in training"),
        (replace(SOUND, train=examples(inputs=torch.ones(4, 2).long())), "found torch.int64"),
        (replace(SOUND, test=examples(2, inputs=NAN)), "test inputs: row 1, value 1 is nan"),
        (replace(SOUND, flipped=examples(2, inputs=NAN)), "flipped test inputs: row 1"),
        (replace(SOUND, train=examples(targets=torch.ones(4))), "training targets: found torch.f"),
        (replace(SOUND, train=examples(targets=torch.tensor([0, 1, 2, 0]))), "row 2 holds the lab"),
        (replace(SOUND, train=examples(targets=torch.tensor([0, -1, 1, 0]))), "row 1 .* label -1"),
        (replace(SOUND, train=examples(targets=torch.zeros(4).long())), "the class 1, but"),
        (replace(SOUND, natural=np.zeros(3, int)), r"natural: found shape \(3,\)"),
        (replace(SOUND, natural=[0, 1, 0, 1]), "natural: found list"),
        (replace(SOUND, natural=np.zeros(4)), "natural: found float64"),
        (Data(examples(), examples(), "regression", 1), "accepted: float32 of shape"),
        (Data(examples(2, targets=NAN), examples(2), "regression", 2), "training targets: row 1"),
    ],
)
def test_what_cannot_be_learnt_is_refused(data: Any, message: str) -> None:
    """The part and the place in it are named."""
    with pytest.raises(ValueError, match=message):
        require_sound(data)


@dataclass(frozen=True)
class Broken(Dataset):
    """A data set with a NaN in it."""

    def load(self, root: Path | None, seed: int) -> Data:
        """As it is."""
        return replace(SOUND, train=examples(2, inputs=NAN), natural=None)


def test_a_data_set_is_asked_before_it_is_dealt() -> None:
    """Whatever class loads the data, the error names the section, and the class's line."""
    its = r"data: .*test_datasets_sound\.py:\d+ in Broken: training inputs: row 1, value 1 is nan"
    with pytest.raises(ScenarioError, match=its):
        partition_data(small(), Broken(), Iid(), np.zeros(2, int), Streams(1), None, learns=True)
