"""The map of sparse attention: its task, its equal weights, its figure."""

import argparse

import numpy as np
import pytest

from benchmarks import sparse_map

pytestmark = pytest.mark.full("other tests check the code that benchmarks run")


def test_one_mark_is_to_be_named_at_each_place():
    ids = np.arange(1000) % 7
    x, y = sparse_map.examples(ids, 11, 7, seed=0)
    rows, places = np.nonzero(x >= 7)
    assert rows.tolist() == [*range(11)] and np.ptp(places) > 100
    np.testing.assert_array_equal(y, np.repeat(x[x >= 7, None] - 7, x.shape[1], 1))
    assert sparse_map.LAYERS * (sparse_map.WINDOW - 1) < sparse_map.T // 4


def test_all_have_the_same_weights():
    wanted = sparse_map.make("dense", 13).count_params()
    for name in sparse_map.NAMES:
        found = sparse_map.make(name, 13).count_params()
        assert abs(found / wanted - 1) < 0.01, name


def test_the_figure_has_a_mark_for_each_name(tmp_path):
    rows = [
        {"name": name, "weights": 7, "loss": n + 1.0, "memory": n + 2.0, "cpu ms": 3.0}
        for n, name in enumerate(sparse_map.NAMES)
    ]
    table = [sparse_map.summary(name, rows) for name in sparse_map.NAMES]
    sparse_map.draw(table, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000
    assert [row["loss"] for row in table] == [*map(float, range(1, 7))]


def test_without_jax_it_says_what_to_pass():
    with pytest.raises(SystemExit, match="--backend jax"):
        sparse_map.run(argparse.Namespace(backend="torch"))
