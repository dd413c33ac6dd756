"""What JAX's transformations make of the derived loop."""

import keras
import numpy as np
import pytest

from kerasseq.core import backend
from tests.kernels.test_derived import distance, make_case

pytestmark = [
    pytest.mark.everywhere("JAX alone has these transformations"),
    pytest.mark.skipif(backend.chosen() != "jax", reason="JAX alone has these"),
]


def loss_of(case, run):
    def loss(arrays):
        path, last = run(arrays)
        return (path**2).sum() + sum((s**3).sum() for s in last)

    return loss


def tensors(case):
    return keras.tree.map_structure(keras.ops.convert_to_tensor, case.arrays)


@pytest.mark.parametrize("name", ["lstm diagonal", "minimal"])
def test_second_derivatives(name):
    import jax

    case = make_case(name, masked=True)

    def second(run):
        gradient = jax.grad(loss_of(case, run))

        def size(arrays):
            return sum((g**2).sum() for g in jax.tree.leaves(gradient(arrays)))

        return [np.array(g) for g in jax.tree.leaves(jax.jit(jax.grad(size))(arrays))]

    arrays = tensors(case)
    assert distance(second(case.at_once), second(case.by_steps)) < 1e-5


def test_vmap_and_checkpoint():
    import jax

    case = make_case("gru", masked=True)
    arrays = tensors(case)
    other = jax.tree.map(lambda a: 1.5 * a, arrays)
    both = jax.tree.map(lambda a, b: jax.numpy.stack([a, b]), arrays, other)

    def gradients(run, **options):
        gradient = jax.grad(jax.checkpoint(loss_of(case, run)))
        return [np.array(g) for g in jax.tree.leaves(jax.jit(jax.vmap(gradient))(both))]

    assert distance(gradients(case.at_once), gradients(case.by_steps)) < 1e-5


def test_eager_calls_are_traced_once():
    case = make_case("lstm")
    arrays = tensors(case)
    first, _ = case.at_once(arrays)
    loop = case.derived.compiled[True]
    again, _ = case.at_once(arrays)
    assert case.derived.compiled[True] is loop
    assert loop._cache_size() == 1
    np.testing.assert_array_equal(first, again)


def test_forward_derivatives_are_refused():
    import jax

    case = make_case("lstm")
    arrays = tensors(case)
    with pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jvp(case.at_once, (arrays,), (arrays,))
