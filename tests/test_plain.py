"""Parts' details as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from simfl.common.plain import to_json


def test_numbers_and_arrays_of_numpy_and_torch_are_json() -> None:
    """As values and as keys."""
    said = {np.int64(3): np.float32(0.5), "met": np.bool_(True), "all": torch.tensor([1, 2])}

    assert json.loads(to_json(said)) == {"3": 0.5, "met": True, "all": [1, 2]}


def test_anything_else_is_refused() -> None:
    """An object has no JSON."""
    with pytest.raises(TypeError, match="accepted: numbers, strings, lists and arrays"):
        to_json({"x": {1, 2}})
