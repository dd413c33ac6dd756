"""Arguments of models as plain JSON: what comes back is what went in."""

import json

import keras
import numpy as np
import pytest

from kerasseq.core.method_layer import MethodLayer
from kerasseq.tasks.saving import as_plain, from_plain
from kerasseq.text import BytePairTokenizer, CharacterTokenizer
from kerasseq.training import ScheduledSampling

pytestmark = pytest.mark.once("configurations and graphs")


def there_and_back(value):
    return from_plain(json.loads(json.dumps(as_plain(value))))


@pytest.mark.parametrize("value", [None, True, 3, 0.25, "gru", [1, 2], {"a": 1}])
def test_plain_values_stay(value):
    assert there_and_back(value) == value


@pytest.mark.parametrize("kind", [CharacterTokenizer, BytePairTokenizer])
def test_tokenizers(kind):
    tokenizer = kind().fit("abba babab é")
    copy = there_and_back(tokenizer)
    assert type(copy) is kind and copy.vocabulary == tokenizer.vocabulary
    np.testing.assert_array_equal(copy.encode("bab é"), tokenizer.encode("bab é"))


def test_layers_and_schedules():
    layer = there_and_back(keras.layers.GRU(5, name="one", dropout=0.25))
    assert (layer.units, layer.name, layer.dropout) == (5, "one", 0.25)
    schedule = ScheduledSampling("linear", steps=7, sampled=True)
    assert there_and_back(schedule).get_config() == schedule.get_config()


def doubled(dense):
    dense.doubled = lambda x: 2 * dense(x)
    return MethodLayer(dense, "doubled")


def test_through_has_the_weights_of_a_layer_and_not_those_of_a_model():
    dense = keras.layers.Dense(3)
    dense.build((None, 2))
    assert [w.path for w in doubled(dense).weights] == [w.path for w in dense.weights]
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    assert doubled(model).weights == []


def test_through_makes_a_graph_and_casts():
    dense = keras.layers.Dense(3, dtype="mixed_bfloat16")
    dense.build((None, 2))
    dense.plain = lambda x: keras.ops.matmul(x, dense.kernel)
    x = keras.Input((2,))
    graph = keras.Model(x, MethodLayer(dense, "plain")(x))
    found = graph(np.ones((5, 2), "float32"))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    wanted = np.ones((5, 2)) @ keras.ops.convert_to_numpy(dense.kernel)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(keras.ops.cast(found, "float32")), wanted, atol=0.02
    )
