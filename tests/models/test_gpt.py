"""GPT: rows of the table, caches that change nothing, texts longer than positions."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import decoding, models, text, training
from kerasseq.decoding import generation
from kerasseq.positions.by_name import DECODER_POSITIONS
from tests.decoding import toys
from tests.layer_checks import compiled_on_jax

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

LETTERS = "abcdefgh ijk"
ROWS = [
    name
    for name, row in models.architectures.items()
    if row.kind in ("decoder", "prefix_decoder")
]
TINY = {"num_layers": 2, "num_heads": 2, "hidden_dim": 12, "max_sequence_length": 24}
UNTIED = {**TINY, "tie_embeddings": False}  # or a token would most like itself


def tiny(seed=1, **options):
    """A GPT whose weights are large enough for its choices to differ."""
    tokenizer = text.CharacterTokenizer(unknown=None).fit(LETTERS)
    return draw_weights(models.GPT(tokenizer, **{**UNTIED, **options}), seed)


def draw_weights(model, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1 and "bias" not in weight.path:
            weight.assign(scale * rng.normal(size=weight.shape))
    return model


def uncached(model, *prompts, length):
    """Greedy, by reading the whole texts again for each token."""
    texts = [model.tokenizer.encode(prompt).tolist() for prompt in prompts]
    width = max(map(len, texts)) + length  # one shape for all steps
    read = compiled_on_jax(model)
    for _ in range(length):
        rows = np.zeros((len(texts), width), "int32")
        for row, ids in zip(rows, texts, strict=True):
            row[: len(ids)] = ids
        logits = keras.ops.convert_to_numpy(read(rows))
        for row, ids in zip(logits, texts, strict=True):
            ids.append(int(row[len(ids) - 1].argmax()))
    return [model.tokenizer.decode(ids) for ids in texts]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table_is_built_with_as_many_weights_as_counted(name):
    row = models.architectures[name].small()
    kinds = {"mamba": models.Mamba, "rwkv4": models.RWKV, "rwkv7": models.RWKV}
    model = kinds.get(row.attention, models.GPT).from_architecture(row)
    assert model.count_params() == models.count(row, what="all").total


@pytest.mark.everywhere("the compiled loop; trained, saved, loaded", cases=1)
@pytest.mark.parametrize("position", DECODER_POSITIONS)
def test_cached_is_uncached_for_prompts_of_any_length(position):
    model = tiny(position=position)
    prompts = ["abc", "k", "deaf edh"]
    wanted = uncached(model, *prompts, length=9)
    assert model.generate(prompts, 9, temperature=0) == wanted
    assert len({text[-9:] for text in wanted}) > 1  # it does not say the same always
    assert model.generate(prompts[0], 9, temperature=0) == wanted[0]


@pytest.mark.parametrize(
    "options",
    [
        {"num_key_value_heads": 1, "position": "rope", "norm": "rms"},
        {"sliding_window": 3},
        {"parallel": True, "feed_forward": "swiglu", "use_bias": False},
        {"norm_placement": "deep"},
        {"norm_placement": "post", "embedding_norm": True, "tie_embeddings": False},
    ],
    ids=str,
)
def test_cached_is_uncached_with_every_option(options):
    model = tiny(**options)
    assert [model.generate("cab", 7, temperature=0)] == uncached(model, "cab", length=7)


def test_generation_beyond_the_positions_keeps_the_last_half():
    model = tiny()
    longest = model.context_length
    written = model.generate("abc", 40, temperature=0)
    assert len(written) == 43
    begun = written[:longest]  # as many as there are positions
    assert [begun] == uncached(model, "abc", length=longest - 3)
    half = written[longest // 2 : longest]
    room = longest - len(half)
    (text,) = uncached(model, half, length=room)
    assert written[longest:][:room] == text[len(half) :]
    long_prompt = "abcdefgh" * 5
    kept = long_prompt[-(longest // 2) :]
    after = model.generate(long_prompt, 5, temperature=0)[40:]
    (text,) = uncached(model, kept, length=5)
    assert after == text[len(kept) :]


def test_rows_of_a_batch_reach_the_end_of_the_positions_independently():
    model = tiny()
    prompts = ["abc", "k", "deaf edh" * 2, "abcdefgh" * 5]
    wanted = [model.generate(prompt, 40, temperature=0) for prompt in prompts]
    assert model.generate(prompts, 40, temperature=0) == wanted


def test_each_row_draws_with_its_own_seed_beyond_the_positions():
    model = tiny()
    prompts, seeds = ["abc", "def"], [5, 7]
    pairs = zip(prompts, seeds, strict=True)
    wanted = [model.generate(prompt, 40, seed=seed) for prompt, seed in pairs]
    assert model.generate(prompts, 40, seed=seeds) == wanted


def test_max_length_counts_the_prompt():
    model = tiny()
    prompts = ["abc", "k", "deaf edh"]
    wanted = [model.generate(p, 11 - len(p), temperature=0) for p in prompts]
    assert model.generate(prompts, max_length=11, temperature=0) == wanted
    pieces = model.stream("abc", max_length=11, temperature=0)
    assert "abc" + "".join(pieces) == wanted[0]


def test_nothing_leaks_from_the_future():
    model = tiny(dropout=0.3)
    ids = np.random.default_rng(0).integers(12, size=(3, 11))
    other = ids.copy()
    other[:, 7:] = (ids[:, 7:] + 5) % 12
    for training_mode in (False, True):
        found = []
        for x in (ids, other):
            for variable in model.non_trainable_variables:
                if "seed_generator" in variable.path:
                    variable.assign([3, 0])
            found.append(keras.ops.convert_to_numpy(model(x, training=training_mode)))
        np.testing.assert_allclose(found[0][:, :7], found[1][:, :7], atol=1e-5)
        assert np.abs(found[0][:, 7:] - found[1][:, 7:]).max() > 0.1


def test_a_stream_is_what_generate_writes():
    model = tiny()
    options = {"temperature": 0.8, "seed": 3}
    pieces = list(model.stream("abc", 30, **options))
    assert len(pieces) == 30
    assert "abc" + "".join(pieces) == model.generate("abc", 30, **options)
    assert model.generate("abc", 30, **options) != model.generate("abc", 30, seed=4)


def test_samplers_and_stop():
    model = tiny()
    best = model.generate("abc", 8, temperature=0)
    assert model.generate("abc", 8, sampler=decoding.TopK(1), seed=0) == best
    assert model.generate("abc", 8, top_k=1, seed=0) == best
    assert model.generate("abc", 8, top_p=1e-6, seed=0) == best
    assert model.generate("abc", 8, sampler="greedy") == best
    assert model.generate("abc", 8, top_k=9, top_p=0.9, min_p=1.0, seed=0) == best
    stop = best[5]
    end = best.index(stop, 3) + 1
    assert model.generate("abc", 8, temperature=0, stop=stop) == best[:end]
    index = int(model.tokenizer.encode(stop)[0])
    assert model.generate("abc", 8, temperature=0, stop=[index]) == best[:end]
    both = model.generate(["abc", "abc"], 8, temperature=0, stop=["", stop][1:])
    assert both == [best[:end]] * 2


@pytest.mark.once("needs no other backend")
def test_a_model_of_a_user_has_its_own_default_sampler():
    class Greedy(models.GPT):
        default_sampler = "greedy"

    made = tiny()
    model = draw_weights(Greedy.from_config(made.get_config()))
    best = made.generate("abc", 30, temperature=0)
    assert model.generate("abc", 30) == "abc" + "".join(model.stream("abc", 30)) == best
    assert made.generate("abc", 30, seed=4) != best


@pytest.mark.everywhere("the compiled loop; trained, saved, loaded")
def test_a_beam_runs_over_its_step():
    model = tiny()
    prompt = model.tokenizer.encode("abc").tolist()
    state, last = model.start([prompt], 4)
    found = decoding.Beam(3).search(model.step, state, last, max_new_tokens=4)
    greedy = decoding.generate(model.step, state, last, max_new_tokens=4)
    assert found.scores[0, 0] >= greedy.log_probabilities.sum() - 1e-5
    ids = [*prompt, *found.ids[0, 0]]
    text = model.generate("abc", 4, sampler=decoding.Beam(3))
    assert text == model.tokenizer.decode(ids)


def language_model(layer):
    tokenizer = text.CharacterTokenizer(unknown=None).fit(LETTERS)
    return draw_weights(models.LanguageModel(layer, tokenizer, units=7), scale=0.6)


def causal_convolution():
    return keras.layers.Conv1D(12, 3, padding="causal")


def reader(model):
    """A function from rows of ids to logits and hidden states at each step."""
    if isinstance(model, models.GPT):
        h, _ = model.stack.hidden_states(model.stack.embedding(model.input))
    else:
        h = model.get_layer("logits").input
    both = compiled_on_jax(keras.Model(model.input, [model.output, h]))

    def read(rows):
        ids = np.zeros((len(rows), 24), "int32")  # one shape for all lengths
        ids[:, : len(rows[0])] = rows
        outputs = map(keras.ops.convert_to_numpy, both(ids))
        return [each[:, : len(rows[0])] for each in outputs]

    return read


@pytest.mark.everywhere("hidden states in the state of the compiled loop", cases=2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: draw_weights(tiny(num_layers=1), scale=0.4),
        lambda: language_model("gru"),
        lambda: draw_weights(tiny(attention=causal_convolution()), scale=0.3),
        lambda: language_model(causal_convolution()),
    ],
    ids=["GPT", "LanguageModel", "GPT without states", "LanguageModel without states"],
)
def test_contrastive_search_is_its_definition(make):
    model, prompts = make(), ["abc", "k"]
    read, wanted = reader(model), {}
    for alpha in (0.6, 0.0):
        rows = [model.tokenizer.encode(prompt).tolist() for prompt in prompts]
        for row in rows:
            row += toys.contrastive(read, len(LETTERS), row, 7, 5, alpha)
        wanted[alpha] = [model.tokenizer.decode(row) for row in rows]
    assert model.generate(prompts, 7, sampler="contrastive") == wanted[0.6]
    assert wanted[0.6] != wanted[0.0]  # which is greedy


def test_every_sampler_that_the_message_names_works():
    model = tiny()
    for name in (*generation.FILTERS, *generation.SEARCHES):
        assert len(model.generate("abc", 7, sampler=name, seed=0)) == 10
    # Beyond the positions, after a prompt that is longer.
    written = model.generate("abc" * 9, 20, sampler="contrastive")
    assert len(written) == 47
    assert written == "abc" * 9 + "".join(
        model.stream("abc" * 9, 20, sampler="contrastive")
    )


@pytest.mark.everywhere("the compiled loop; trained, saved, loaded", cases=1)
@pytest.mark.parametrize("position", ["relative", "transformer_xl"])
def test_it_learns_and_is_the_same_after_saving(position, tmp_path):
    keras.utils.set_random_seed(0)
    tokenizer = text.CharacterTokenizer(unknown=None).fit(LETTERS)
    model = models.GPT(tokenizer, **{**TINY, "hidden_dim": 16, "position": position})
    model.compile(training.gpt_optimizer(model, 1e-2, 60, warm_up=5))
    options = {"sequence_length": 24, "batch_size": 4, "verbose": 0}
    history = model.fit(LETTERS * 40, epochs=2, **options)
    assert history.history["loss"][-1] < history.history["loss"][0]
    model.fit(LETTERS * 40, epochs=12, initial_epoch=2, **options)
    assert model.generate("abcd", 16, temperature=0) == (LETTERS * 2)[:20]
    assert model.bits_per_token(LETTERS * 5) < 0.5
    model.save(tmp_path / "gpt.keras")
    after = kerasseq.load_model(tmp_path / "gpt.keras")
    assert after.generate("fgh", 9, temperature=0) == model.generate(
        "fgh", 9, temperature=0
    )
    assert after.count_params() == model.count_params()


def test_ids_without_a_tokenizer():
    model = models.GPT(vocabulary_size=7, **TINY)
    written = model.generate(np.array([3, 1]), 4, seed=0)
    assert written.shape == (6,) and written[:2].tolist() == [3, 1]
    assert [row[:1].tolist() for row in model.generate([[5], [6, 2]], 3)] == [[5], [6]]
    assert all(0 <= i < 7 for i in model.stream([4], 3, seed=0))


@pytest.mark.everywhere("the compiled loop; trained, saved, loaded")
def test_half_precision():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = tiny(position="rope", num_key_value_heads=1)
    finally:
        keras.config.set_dtype_policy(policy)
    assert len(model.generate(["abc", "k"], 5, seed=0)[0]) == 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.generate("", 3), "the text is empty"),
        (lambda m: m.generate([], 3), "at least one token"),
        (lambda m: m.generate("abc", 0), "max_new_tokens must be at least 1"),
        (lambda m: m.generate("abc"), "max_new_tokens or max_length must be given"),
        (lambda m: m.generate("abc", 3, max_length=9), "give one of them"),
        (lambda m: m.generate("abc", max_length=3), "above its 3 tokens.*max_length=3"),
        (lambda m: m.generate("abc", 3, sampler="top-k"), 'Did you mean "top_k"'),
        (lambda m: m.stream("abc", 3, sampler="beam"), "stream cannot use Beam"),
        (lambda m: m.stream("abc"), "max_new_tokens or max_length must be given"),
        (lambda m: m.generate("a", 3, top_k=2, sampler=decoding.Greedy()), "not both"),
        (
            lambda m: m.generate("abc", 3, stop="ab"),
            "one token, received .ab., which is 2",
        ),
        (lambda m: m.generate(np.array([99]), 3), "99"),
        (lambda m: m.stream(["a", "b"], 3), "one prompt"),
        (lambda m: m.fit(LETTERS * 9, sequence_length=25), "24 positions.*25"),
        (lambda m: m.cross_entropy("abc", sequence_length=99), "24 positions.*99"),
        (lambda m: m(np.zeros((1, 25), "int32")), "24 positions.* of 25 tokens"),
        (lambda m: models.GPT(vocabulary_size=7, position="rop"), 'mean "rope"'),
        (lambda m: models.GPT(vocabulary_size=7, hidden_dim=10, num_heads=3), "divide"),
        (lambda m: models.GPT(), "fitted tokenizer"),
        (lambda m: models.GPT.from_architecture("bert_base"), "encoder"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call(tiny())


def test_a_batch_has_no_cross_entropy():
    with pytest.raises(TypeError, match="source must be a text, .* received array"):
        tiny().cross_entropy(np.ones((2, 7), int))


@pytest.mark.once("initial weights, of which backends draw others of the same kind")
@pytest.mark.parametrize("norm_placement", ["pre", "post"])
def test_weights_begin_as_in_gpt2(norm_placement):
    sizes = {
        "num_layers": 2,
        "num_heads": 4,
        "hidden_dim": 64,
        "norm_placement": norm_placement,
    }
    model = models.GPT(vocabulary_size=97, max_sequence_length=89, **sizes)
    added = 0.02 / (2 * 2) ** 0.5 if norm_placement == "pre" else 0.02
    seen = set()
    for weight in model.weights:
        *_, layer, kind = weight.path.split("/")
        if kind not in ("kernel", "embeddings"):
            continue
        wanted = 0.01 if layer == "position_embedding" else 0.02
        wanted = added if layer in ("attention_output", "output_dense") else wanted
        found = keras.ops.convert_to_numpy(weight)
        assert abs(found.mean()) < 0.1 * wanted, weight.path
        assert 0.95 * wanted < found.std() < 1.05 * wanted, weight.path
        seen.add(layer)
    assert {"embedding", "query", "attention_output", "output_dense"} < seen
    again = models.GPT.from_config(model.get_config())
    block = type(model.stack.blocks[0]).from_config(model.stack.blocks[0].get_config())
    if norm_placement == "pre":
        assert block.output_initializer.stddev == added
    assert again.count_params() == model.count_params()


def test_nothing_is_serialized_when_a_model_is_made(monkeypatch):
    def fail(*_, **__):  # Keras imports TensorFlow there, also on other backends
        raise AssertionError("serialized")

    for module in (keras.initializers, keras.saving):
        for name in ("serialize", "serialize_keras_object"):
            monkeypatch.setattr(module, name, fail, raising=False)
    model = tiny()
    model.fit(np.arange(53) % 11, sequence_length=7, epochs=1, verbose=0)
    assert len(model.generate("ab", max_length=7)) == 7
