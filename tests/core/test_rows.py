"""Sums over rows: as NumPy's, whatever the type, and however rows are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core import rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 99), k=st.integers(0, 4), d=st.integers(1, 50))
def test_they_are_numpy_s(dtype, seed, k, d):
    rng = np.random.default_rng(seed)
    matrix, weights = rng.normal(size=(k, d)).astype(dtype), rng.normal(size=k)
    exact = matrix.astype(np.float64)
    np.testing.assert_allclose(rows.combine(weights, list(matrix), d), weights @ exact, atol=1e-12)
    np.testing.assert_allclose(rows.gram(list(matrix)), exact @ exact.T, atol=1e-12)
    np.testing.assert_allclose(rows.squared_lengths(list(matrix)), (exact**2).sum(1), atol=1e-12)
    assert rows.combine(weights, list(matrix), d).dtype == np.float64


def test_a_sum_does_not_depend_on_where_rows_are_cut(monkeypatch):
    matrix, weights = np.random.default_rng(0).normal(size=(5, 1000)), np.arange(5.0)
    whole = rows.combine(weights, matrix, 1000)
    monkeypatch.setattr(rows, "CHUNK", 7)
    assert rows.combine(weights, matrix, 1000).tobytes() == whole.tobytes()


def test_a_weight_of_zero_leaves_a_row_alone():
    broken = np.array([np.nan, np.inf])
    assert rows.combine(np.array([0.0, 1.0]), [broken, np.ones(2)], 2).tolist() == [1, 1]
