"""Counts against the slides, the papers, published weights, and sums done otherwise."""

import dataclasses
import fractions
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from kerasseq import layers, models
from kerasseq.published.architectures import architectures
from kerasseq.published.counting import count

pytestmark = pytest.mark.once("arithmetic: the models of each row are built once")

# Slides E, and what is between the lines there: rows of GPT-3.
GPT3 = [
    ("Embedding", (12288, 50257), 1, 617_558_016),
    ("Query", (128, 12288), 9216, 14_495_514_624),
    ("Key", (128, 12288), 9216, 14_495_514_624),
    ("Value", (128, 12288), 9216, 14_495_514_624),
    ("Output", (12288, 12288), 96, 14_495_514_624),
    ("Up-projection", (49152, 12288), 96, 57_982_058_496),
    ("Down-projection", (12288, 49152), 96, 57_982_058_496),
    ("Unembedding", (50257, 12288), 1, 617_558_016),
]
# What the published weights have, each of them.
PUBLISHED = {
    "bloom": 176_247_271_424,
    "llama_65b": 65_285_660_672,
    "llama_33b": 32_528_943_616,
    "llama_13b": 13_015_864_320,
    "llama_7b": 6_738_415_616,
    "t5_small": 60_506_624,
    "t5_base": 222_903_552,
    "t5_large": 737_668_096,
    "t5_3b": 2_851_598_336,
    "t5_11b": 11_307_321_344,
    "t5_v1_1_small": 76_961_152,
    "t5_v1_1_base": 247_577_856,
    "t5_v1_1_large": 783_150_080,
    "t5_v1_1_xl": 2_849_757_184,
    "t5_v1_1_xxl": 11_135_332_352,
    "gpt": 116_534_784,
    "gpt2_small": 124_439_808,
    "gpt2_medium": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "bert_base": 109_482_240,
    "bert_large": 335_141_888,
    "mamba_130m": 129_135_360,
    "mamba_370m": 371_516_416,
    "mamba_790m": 793_204_224,
    "mamba_1_4b": 1_372_178_432,
    "mamba_2_8b": 2_768_345_600,
    "rwkv4_169m": 169_342_464,
    "rwkv4_430m": 430_397_440,
    "rwkv4_1_5b": 1_515_106_304,
    "rwkv7_191m": 191_034_624,
    "rwkv7_451m": 450_767_872,
    "rwkv7_1_5b": 1_527_404_544,
    "rwkv7_2_9b": 2_947_735_040,
    "mixtral_8x7b": 46_702_792_704,
    "mixtral_8x22b": 140_630_071_296,
    "vit_base_16": 86_567_656,
    "vit_base_32": 88_224_232,
    "vit_large_16": 304_326_632,
    "vit_large_32": 306_535_400,
    "vit_huge_14": 632_045_800,
}
ACTIVE = {"mixtral_8x7b": 12_879_925_248, "mixtral_8x22b": 39_161_468_928}
# How far the count may be from the size in the paper: 1 %, but for these.
TOLERANCE = {
    "galactica": 0.012,  # "120B", of 121.3
    "glm_130b": 0.011,
    "t5_base": 0.014,
    "t5_large": 0.043,  # the paper's size fits embeddings that are not tied
    "t5_3b": 0.019,
    "t5_11b": 0.03,  # "11B", of 11.3
    "transformer_base": 0.03,
    "bert_large": 0.015,
    "mamba_1_4b": 0.02,  # "1.4B", of 1.372
    "mamba_2_8b": 0.012,
}
# Other sizes of the same families: layers, width, heads, width of a head, and weights.
SIBLINGS = [
    ("opt", 12, 768, 12, 64, 125_239_296 - 2 * 768, 0),  # two more rows of positions
    ("bloom", 24, 1024, 16, 64, 559_214_592, 0),
    ("palm", 32, 4096, 16, 256, 8.63e9, 0.001),
    ("palm", 64, 8192, 32, 256, 62.50e9, 0.001),
    ("jurassic_1", 32, 4096, 32, 128, 7.5e9, 0.002),
    ("gopher", 8, 512, 16, 32, 44e6, 0.01),
    ("gopher", 12, 768, 12, 64, 117e6, 0.003),
    ("gopher", 12, 1536, 12, 128, 417e6, 0.002),
    ("gopher", 24, 2048, 16, 128, 1.4e9, 0.02),
    ("gopher", 32, 4096, 32, 128, 7.1e9, 0.003),
    # Narayanan et al. 2021, table 1: a GPT of a trillion parameters, whose speed they
    # measured.
    ("gpt3", 128, 25600, 160, 160, 1008.0e9, 1e-4),
]


def test_gpt3_to_the_last_weight():
    counted = models.count("gpt3")
    assert [(*_row(part), part.weights) for part in counted.parts] == GPT3
    assert counted.total == 175_181_291_520
    assert counted.number == 27_938 == 96 * (3 * 96 + 1 + 2) + 2
    assert counted.groups == {
        "embedding": 617_558_016,
        "attention": 57_982_058_496,
        "feed-forward": 2 * 57_982_058_496,
        "head": 617_558_016,
    }
    assert round(counted.groups["attention"] / counted.total, 3) == 0.331
    for part in counted.parts[1:4]:
        head = math.prod(part.shape)
        assert head == 1_572_864 and 96 * head == 150_994_944
    assert math.prod(counted.parts[4].shape) == 150_994_944
    assert math.prod(counted.parts[5].shape) == 603_979_776


@pytest.mark.parametrize("name", PUBLISHED)
def test_equals_the_published_weights(name):
    assert count(name, what="all").total == PUBLISHED[name]


@pytest.mark.parametrize("name", architectures)
def test_what_a_token_uses(name):
    counted = count(name, what="all")
    assert counted.active == ACTIVE.get(name, counted.total)
    assert (f"; a token uses {counted.active:,}" in str(counted)) == (name in ACTIVE)
    idle = counted.total - counted.active
    matrices = count(name)
    assert matrices.total - matrices.active == idle


def test_the_weights_of_experts_are_those_of_the_model():
    a = architectures["mixtral_8x7b"].small()
    for changes in ({}, {"use_bias": True, "feed_forward": "gelu", "top_k": 1}):
        row = dataclasses.replace(a, **changes)
        built = models.GPT.from_architecture(row)
        shapes = sorted(tuple(w.shape) for w in built.weights)
        parts = [(p.shape,) * p.number for p in count(row, what="all").parts]
        assert sorted(shape for several in parts for shape in several) == shapes
        assert count(row, what="all").total == by_formula(row)
        layer = built.get_layer("block_1").feed_forward
        assert (layer.num_experts, layer.top_k) == (8, row.top_k)
        assert layer.norm_topk_prob == (row.top_k > 1)


def test_the_weights_of_adapters():
    assert [count("gpt3", lora=r).total for r in (1, 8)] == [4_718_592, 8 * 4_718_592]
    row = architectures["mixtral_8x7b"].small()  # keys and values for several queries
    built = models.GPT.from_architecture(row)
    built.enable_lora(3)
    shapes = sorted(tuple(w.shape) for w in built.trainable_weights)
    parts = [(p.shape,) * p.number for p in count(row, lora=3).parts]
    assert sorted(shape for several in parts for shape in several) == shapes
    with pytest.raises(ValueError, match="does not have"):
        count("mamba_130m", lora=3)
    with pytest.raises(ValueError, match="lora must be at least 1"):
        count("gpt3", lora=0)


def test_vit_without_its_classes():
    a = architectures["vit_base_16"].scaled(classes=0)
    assert count(a, what="all").total == 85_798_656
    assert "Classes" not in {part.name for part in count(a).parts}


@pytest.mark.parametrize("name", architectures)
def test_agrees_with_the_size_in_the_paper(name):
    a = architectures[name]
    assert count(a, what="all").total == pytest.approx(
        a.size, rel=TOLERANCE.get(name, 0.01)
    )


@pytest.mark.parametrize(
    ("name", "depth", "width", "heads", "head", "weights", "rel"), SIBLINGS
)
def test_the_row_scaled_is_a_sibling(name, depth, width, heads, head, weights, rel):
    a = architectures[name].scaled(
        num_layers=depth, hidden_dim=width, num_heads=heads, head_dim=head
    )
    assert count(a, what="all").total == pytest.approx(weights, rel=rel, abs=0)


@pytest.mark.parametrize(
    "name",
    ["gpt3", "pangu_alpha", "opt", "bloom", "mt_nlg", "galactica", "jurassic_1",
     "llama_65b", "glm_130b"],
)  # fmt: skip
def test_the_rule_of_thumb(name):
    a = architectures[name]
    assert a.rule_of_thumb == 12 * a.num_layers * a.hidden_dim**2
    assert a.rule_of_thumb == pytest.approx(a.size, rel=0.03)


@pytest.mark.parametrize(
    ("name", "weights", "number"),
    [  # 2 V d and, per layer, what multiplies; for T5 and LaMDA heads wider than d
        ("palm",
         2 * 256000 * 18432 + 118 * (2 * 18432 * 48 * 256 + 2 * 18432 * 256
                                     + 3 * 18432 * 4 * 18432),
         2 + 118 * (48 + 1 + 1 + 1 + 3)),
        ("gopher", 2 * 32000 * 16384 + 80 * 13 * 16384**2, 2 + 80 * (4 * 128 + 3)),
        ("chinchilla", 2 * 32000 * 8192 + 80 * 13 * 8192**2, 2 + 80 * (4 * 64 + 3)),
        ("lamda", 2 * 32000 * 8192 + 64 * (4 * 8192 * 16384 + 3 * 8192 * 65536),
         2 + 64 * (3 * 128 + 1 + 3)),
        ("t5_11b",
         2 * 32128 * 1024 + 24 * (3 * 4 * 1024 * 16384 + 2 * 2 * 1024 * 65536),
         2 + 24 * (3 * (3 * 128 + 1) + 2 * 2)),
    ],
)  # fmt: skip
def test_those_with_a_formula_of_their_own(name, weights, number):
    counted = count(name)
    assert (counted.total, counted.number) == (weights, number)
    a = architectures[name]
    assert a.rule_of_thumb != pytest.approx(a.size, rel=0.07)


def test_the_matrices_of_two_stacks():
    names = [part.name for part in count("t5_v1_1_small").parts]
    attention = ["query", "key", "value", "output"]
    forward = ["gate", "up-projection", "down-projection"]
    assert names == [
        "Embedding",
        *(f"Encoder {name}" for name in attention + forward),
        *(f"Decoder {name}" for name in attention),
        *(f"Cross {name}" for name in attention),
        *(f"Decoder {name}" for name in forward),
        "Unembedding",
    ]


def test_the_matrices_of_an_encoder():
    rows = {part.name: _row(part)[1:] for part in count("bert_base").parts}
    assert rows["Pooler"] == ((768, 768), 1)
    assert "Unembedding" not in rows
    rows = {part.name: _row(part)[1:] for part in count("vit_base_16").parts}
    assert rows["Patches"] == ((768, 768), 1) and rows["Classes"] == ((1000, 768), 1)
    assert "Embedding" not in rows
    counted = count("vit_base_16")
    assert counted.total == 768 * 16 * 16 * 3 + 12 * 12 * 768**2 + 1000 * 768
    assert counted.number == 2 + 12 * (3 * 12 + 3)


@pytest.mark.parametrize("name", architectures)
@pytest.mark.parametrize("size", ["published", "small"])
def test_equals_a_sum_done_otherwise(name, size):
    a = architectures[name] if size == "published" else architectures[name].small()
    assert count(a, what="all").total == by_formula(a)


@hypothesis.given(
    st.fixed_dictionaries(
        {
            "norm": st.sampled_from(["layer", "rms"]),
            "norm_placement": st.sampled_from(["pre", "post", "deep"]),
            "feed_forward": st.sampled_from(["relu", "gelu", "swiglu", "geglu"]),
            "position": st.sampled_from(
                ["learned", "sinusoidal", "rope", "alibi", "relative", "transformer_xl"]
            ),
            "kind": st.sampled_from(["decoder", "encoder", "encoder_decoder"]),
            "num_key_value_heads": st.sampled_from([1, 2, 4]),
            **dict.fromkeys(
                ["use_bias", "tie_embeddings", "parallel", "embedding_norm", "pooler"],
                st.booleans(),
            ),
        }
    )
)
def test_any_choice_equals_a_sum_done_otherwise(choice):
    a = dataclasses.replace(architectures["gpt2_small"].small(), **choice)
    counted = count(a, what="all")
    assert counted.total == by_formula(a)
    assert len({part.name for part in counted.parts}) == len(counted.parts)
    a = dataclasses.replace(a, tie_embeddings=False, use_bias=False)
    kernels = [p for p in count(a, what="all").parts if "kernel" in p.name]
    tables = [p for p in count(a, what="all").parts if p.name == "token_embedding"]
    assert count(a).total == sum(part.weights for part in kernels + tables)


def by_formula(a):
    """The number of weights in closed form, stack by stack."""
    d, heads, shared = a.hidden_dim, a.num_heads, a.num_key_value_heads
    inner, b = a.intermediate_dim, int(a.use_bias)
    norm = d * (1 + (a.norm == "layer" and b))
    wide = (heads + 2 * shared) * a.head_dim  # queries, keys and values together
    attention = (d + b) * wide + (heads * a.head_dim + b) * d
    relative = 0
    if a.position == "transformer_xl":
        attention += d * heads * a.head_dim
        relative = 2 * heads * a.head_dim
    if a.position == "relative":
        relative = 32 * heads
    gates = 2 if a.feed_forward in ("swiglu", "geglu") else 1
    forward = gates * (d + b) * inner + (inner + b) * d
    if a.num_experts:
        forward = a.num_experts * (forward + d)
    if a.attention != "multi_head":
        attention, forward = without_attention(a, norm)
    total = a.embedding_norm * norm + a.pooler * (d + b) * d + a.segments * d
    for sublayers in {"encoder_decoder": (1, 2)}.get(a.kind, (1,)):
        norms = 1 if a.parallel else sublayers + 1
        layer = sublayers * attention + forward + norms * norm
        total += a.num_layers * layer + relative + (a.norm_placement == "pre") * norm
    if a.kind == "vision":
        patch = a.patch_size**2 * a.channels
        total += (patch + b) * d + d + (a.patches + 1) * d + (d + b) * a.classes
    else:
        unembedding = "decoder" in a.kind and not a.tie_embeddings
        total += a.vocabulary_size * d * (1 + unembedding)
        total += (a.position == "learned") * (a.max_sequence_length or 0) * d
    return total


def without_attention(a, norm):
    d, E, N, R = a.hidden_dim, a.intermediate_dim, a.state_size, -(-a.hidden_dim // 16)
    if a.attention == "mamba":  # without a feed-forward network, and a norm before it
        return E * (3 * d + a.conv_kernel + 2 * R + 3 * N + 3), -norm
    if a.attention == "rwkv7":  # the first layer has no matrices for values
        ranks = 2 * d * (a.decay_rank + a.rate_rank + a.gate_rank)
        share = fractions.Fraction(a.num_layers - 1, a.num_layers)
        values = (2 * d * a.value_rank + d) * share
        return 4 * d * d + ranks + values + 13 * d, 2 * d * E + d
    return 4 * d * d + 5 * d, d * d + 2 * d * E + 2 * d


@pytest.mark.parametrize("name", ["gpt2_small", "palm", "t5_11b"])
def test_attention_has_the_weights_of_the_layer(name):
    a = architectures[name].small()
    layer = layers.MultiHeadAttention(
        a.num_heads,
        a.head_dim,
        use_bias=a.use_bias,
        num_key_value_heads=a.num_key_value_heads,
    )
    layer.build((2, 3, a.hidden_dim), (2, 3, a.hidden_dim))
    built = {w.path.split("/", 1)[1]: tuple(w.shape) for w in layer.weights}
    start = "decoder/*/self_attention/"
    parts = [p for p in count(a, what="all").parts if p.name.startswith(start)]
    assert {p.name.removeprefix(start): p.shape for p in parts} == built
    assert {p.number for p in parts} == {a.num_layers}


@pytest.mark.parametrize("name", ["mamba_130m", "rwkv4_169m", "rwkv7_191m"])
def test_models_without_attention_have_these_weights(name):
    a = architectures[name].small()
    model = models.Mamba if a.attention == "mamba" else models.RWKV
    built = model.from_architecture(a)
    shapes = sorted(tuple(w.shape) for w in built.weights)
    parts = [(p.shape,) * p.number for p in count(a, what="all").parts]
    assert sorted(shape for several in parts for shape in several) == shapes


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("t5_small", {"token_embedding": (101, 24), "encoder/relative_bias": (32, 4)}),
        ("t5_v1_1_small", {"logits/kernel": (24, 101)}),
        ("bert_base", {"segment_embedding": (2, 24), "position_embedding": (17, 24)}),
        ("gpt2_small", {"decoder/*/feed_forward/up/kernel": (24, 96)}),
        ("gpt2_small", {"decoder/*/feed_forward/up/bias": (96,)}),
        ("glm_130b", {"decoder/*/feed_forward/gate/kernel": (24, 64)}),
        ("glm_130b", {"decoder/*/feed_forward/down/kernel": (64, 24)}),
        ("gopher", {"decoder/*/self_attention/position/kernel": (24, 4, 6)}),
        ("gopher", {"decoder/content_bias": (4, 6), "decoder/position_bias": (4, 6)}),
        ("vit_base_16", {"patch_embedding/kernel": (5, 5, 3, 24)}),
        ("vit_base_16", {"class_token": (1, 24), "position_embedding": (5, 24)}),
        ("vit_base_16", {"classes/kernel": (24, 7), "classes/bias": (7,)}),
    ],
)
def test_shapes_of_the_weights(name, shapes):
    parts = count(architectures[name].small(), what="all").parts
    found = {part.name: part.shape for part in parts}
    assert {key: found.get(key) for key in shapes} == shapes


def test_names_of_the_weights():
    names = [part.name for part in count("bert_base", what="all").parts]
    assert names[:5] == [
        "token_embedding",
        "segment_embedding",
        "position_embedding",
        "embedding_norm/gamma",
        "embedding_norm/beta",
    ]
    assert names[-2:] == ["pooler/kernel", "pooler/bias"]
    assert "encoder/*/feed_forward/up/kernel" in names
    names = [part.name for part in count("t5_small", what="all").parts]
    assert "decoder/*/cross_attention_norm/gamma" in names
    assert "encoder/relative_bias" in names and "decoder/norm/gamma" in names
    assert not [name for name in names if name.endswith(("/bias", "/beta"))]


def test_as_text():
    lines = str(count("gpt2_small", what="all")).splitlines()
    assert lines[-1] == "124,439,808 weights in 196 arrays"
    assert " ".join(lines[0].split()) == "token_embedding 50257 × 768 1 38,597,376"
    assert len({len(line) for line in lines[:-1]}) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("gpt33", "all"), ValueError, 'no architecture "gpt33". Did .* "gpt3"'),
        ((None, "all"), TypeError, "must be a name or a row of models.architectures"),
        (("gpt3", "matrix"), ValueError, 'what="matrix" is not one of "matrices", "al'),
    ],
)
def test_what_is_wrong_is_said(arguments, error, message):
    with pytest.raises(error, match=message):
        count(arguments[0], what=arguments[1])


def test_public_names():
    assert models.architectures is architectures and models.count is count


def _row(part):
    return part.name, part.shape, part.number
