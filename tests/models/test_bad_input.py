"""Transformers say what is wrong with what they are given, and name both sides."""

import keras
import numpy as np
import pytest

from kerasseq.layers import MultiHeadAttention, TransformerDecoder
from kerasseq.models import BART, BERT, GPT, T5, LanguageModel, Transformer, ViT

pytestmark = pytest.mark.once("arguments, messages and files")

V, LONGEST = 7, 5
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6}
LONG = {**SIZES, "max_sequence_length": LONGEST}
OWN = V + 2  # ids of a model of pairs: padding, start and end, and no padding of ours


def gpt():
    return GPT(vocabulary_size=V, **LONG)


def bert():
    return BERT(vocabulary_size=V, **LONG, head="classify", labels=3)


def transformer(**options):
    sizes = {"source_vocabulary_size": V, "target_vocabulary_size": V}
    return Transformer(**sizes, **SIZES, **options)


def t5():
    return T5(vocabulary_size=V, **SIZES)


MODELS = {
    "gpt": gpt,
    "bert": bert,
    "transformer": lambda: transformer(),
    "learned": lambda: transformer(position="learned", max_sequence_length=LONGEST),
    "t5": t5,
    "lm": lambda: LanguageModel("gru", vocabulary_size=V, units=3),
    "task": lambda: gpt().with_head("classify", labels=3),
}


@pytest.fixture(scope="module", params=MODELS)
def named(request):
    return request.param, MODELS[request.param]()


def wrong(name, i):
    """Arrays that hold the id i, and targets."""
    ids = np.array([[1, i, 3]])
    if name in ("transformer", "learned", "t5"):
        return (ids, np.ones_like(ids)), np.ones_like(ids)
    return ids, np.array([1]) if name in ("bert", "task") else np.ones_like(ids)


def test_ids_outside_the_vocabulary(named):
    name, model = named
    pairs = name in ("transformer", "learned", "t5")
    size = {"task": V + 4}.get(name, OWN if pairs else V)
    for i in (-1, size):
        x, y = wrong(name, i)
        message = f"from 0 to {size - 1}, as .*={size}, received {i}"
        with pytest.raises(ValueError, match=message):
            model.predict(x)
        with pytest.raises(ValueError, match=message):
            model.fit(x, y)
        with pytest.raises(ValueError, match=message):
            model.evaluate(x, y)
        if pairs or name in ("gpt", "lm"):
            good = wrong(name, 1)
            bad = (good[0][0], x[0]) if pairs else good[0]
            with pytest.raises(ValueError, match=message):
                model.fit(bad, good[1] if pairs else x)


@pytest.mark.parametrize("name", ["gpt", "lm"])
def test_ids_of_texts_and_prompts(name):
    model = MODELS[name]()
    for use in (model.fit, model.evaluate, model.predict):
        with pytest.raises(TypeError, match=r"array of ids .*, received \[1\.5\]"):
            use([1.5])
    for i in (-1, V):
        ids = np.array([1, i] * 9)
        for use in (model.fit, model.cross_entropy, lambda x: model.generate(x, 2)):
            with pytest.raises(ValueError, match=f"holds {i} .* from 0 to {V - 1}"):
                use(ids)


@pytest.mark.parametrize("name", ["transformer", "t5"])
def test_ids_of_rows_of_pairs(name):
    model = MODELS[name]()
    for use in (model.translate, lambda x: model.fit(x, x)):
        with pytest.raises(ValueError, match=f"from 1 to {V - 1}, .* received {V}"):
            use([[1, V]])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: gpt().predict(np.ones((1, 6), int)), "5 positions.* of 6 tokens"),
        (
            lambda: gpt().fit(np.ones(30, int), sequence_length=6),
            "at most the 5 positions .* 6",
        ),
        (lambda: bert().predict(np.ones((1, 6), int)), "6 tokens.*_length=5 at most"),
        (lambda: MODELS["task"]().predict([[1] * 4]), "6 tokens.*_length=5 at most"),
        (
            lambda: MODELS["learned"]().translate([[1] * 7]),
            "source 0 must have at most 5 tokens.*received 7",
        ),
        (
            lambda: MODELS["learned"]().fit([[1]], [[1] * 7]),
            "target 0 must have at most 4 tokens.*received 7",
        ),
    ],
)
def test_more_tokens_than_positions(use, message):
    with pytest.raises(ValueError, match=message):
        use()


ODD = {"num_layers": 1, "num_heads": 4, "hidden_dim": 6}


@pytest.mark.parametrize(
    "make",
    [
        lambda: GPT(vocabulary_size=V, **ODD),
        lambda: BERT(vocabulary_size=V, **ODD),
        lambda: T5(vocabulary_size=V, **ODD),
        lambda: Transformer(source_vocabulary_size=V, target_vocabulary_size=V, **ODD),
        lambda: ViT(3, image_size=4, patch_size=2, **ODD),
        lambda: TransformerDecoder(8, 4)(np.ones((1, 2, 6))),
    ],
    ids=["gpt", "bert", "t5", "transformer", "vit", "decoder"],
)
def test_heads_that_do_not_divide_the_width(make):
    with pytest.raises(ValueError, match=r"num_heads=4 .*divide.* 6|6.*num_heads=4"):
        make()


def test_images_of_another_size():
    model = ViT(3, image_size=4, patch_size=2, **SIZES)
    with pytest.raises(ValueError, match="5 × 4, received 2 × 2"):
        model.predict(np.zeros((1, 5, 4, 3), "uint8"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 2}, "3 new tokens .* length 2"),
        ({"batch": 5}, "batch size of the inputs, 2, received 5"),
        ({"heads": 3}, "2 heads of width 3, received 3 heads of width 2"),
    ],
)
def test_caches_that_do_not_fit(options, message):
    x = np.ones((2, 3, 6), "float32")
    layer, other = (
        TransformerDecoder(8, 2),
        TransformerDecoder(8, options.get("heads", 2)),
    )
    layer.build(x.shape)
    other.build(x.shape)
    cache = other.make_cache(options.get("batch", 2), options.get("length", 7))
    with pytest.raises(ValueError, match=message):
        layer(x, self_attention_cache=cache, self_attention_cache_update_index=0)


def test_a_step_beyond_the_end_of_a_cache():
    attention = MultiHeadAttention(2, 3)
    x = keras.ops.ones((1, 1, 6))
    attention.build(x.shape, x.shape)
    with pytest.raises(ValueError, match="1 new tokens .* length 4, received 4"):
        attention(x, x, cache=attention.make_cache(1, 4), cache_update_index=4)


@pytest.mark.parametrize("name", ["num_layers", "num_decoder_layers"])
@pytest.mark.parametrize("model", [T5, BART])
def test_as_many_blocks_as_no_memory_holds(model, name):
    with pytest.raises(ValueError, match=f"{name} must be .* received 10{'0' * 12},"):
        model(vocabulary_size=9, **{name: 10**13})
