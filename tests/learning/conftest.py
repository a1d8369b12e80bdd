"""Fixtures of the tests of learning."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_limits

from simfl.learning.kernels import stacked_product


@pytest.fixture(params=["torch", "numpy"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Stacked products by either library, whatever this machine's rule is."""
    chosen = "OpenBLAS" if request.param == "numpy" else None
    monkeypatch.setattr(stacked_product, "openblas", lambda: chosen)
    with threadpool_limits(1, "blas"):
        yield request.param
