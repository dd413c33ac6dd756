"""The table itself: what its rows say, and what can be made of a row."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import pytest

from kerasseq.published.architectures import Architecture, architectures, find

pytestmark = pytest.mark.once("arguments, messages and files")

# Slides C: category, size in billions, norm, positions, activation, bias, layers,
# heads, width, length, with their dashes. Their tick at LLaMA's bias is wrong.
SLIDES = """
gpt3        decoder         175  pre_layer   learned        gelu    yes  96  96  12288 2048
pangu_alpha decoder         207  pre_layer   learned        gelu    yes  64 128  16384 1024
opt         decoder         175  pre_layer   learned        relu    yes  96  96  12288 2048
palm        decoder         540  pre_layer   rope           swiglu  no  118  48  18432 2048
bloom       decoder         176  pre_layer   alibi          gelu    yes  70 112  14336 2048
mt_nlg      decoder         530  -           -              -       -   105 128  20480 2048
gopher      decoder         280  pre_rms     transformer_xl -       -    80 128  16384 -
chinchilla  decoder         70   pre_rms     transformer_xl -       -    80  64   8192 -
galactica   decoder         120  pre_layer   learned        gelu    no   96  80  10240 2048
lamda       decoder         137  -           relative       geglu   -    64 128   8192 -
jurassic_1  decoder         178  pre_layer   learned        gelu    yes  76  96  13824 2048
llama_65b   decoder         65   pre_rms     rope           swiglu  no   80  64   8192 2048
glm_130b    prefix_decoder  130  deep_layer  rope           geglu   yes  70  96  12288 2048
t5_11b      encoder_decoder 11   pre_rms     relative       relu    no   24 128   1024 -
"""  # noqa: E501
ROWS = [line.split() for line in SLIDES.strip().splitlines()]


def test_the_first_rows_are_those_of_the_slides_in_their_order():
    assert list(architectures)[: len(ROWS)] == [row[0] for row in ROWS]
    assert len(ROWS) == 14


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_what_the_slides_say(row):
    a = architectures[row[0]]
    found = [
        a.name,
        a.kind,
        str(round(a.size / 10**9)),
        f"{a.norm_placement}_{a.norm}",
        a.position,
        a.feed_forward,
        "yes" if a.use_bias else "no",
        *map(str, (a.num_layers, a.num_heads, a.hidden_dim, a.max_sequence_length)),
    ]
    assert [f for f, r in zip(found, row, strict=True) if r != "-"] == [
        r for r in row if r != "-"
    ]


@pytest.mark.parametrize("name", architectures)
def test_every_row_says_where_it_is_from(name):
    a = architectures[name]
    assert a.name == name and a.size > 10**6
    assert any(str(year) in a.source for year in range(2017, 2026))
    assert a.note == "" or a.note.endswith(".")


def test_every_row_has_a_title_of_its_own():
    titles = [a.title for a in architectures.values()]
    assert len(set(titles)) == len(titles) >= 40


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("palm", {"num_key_value_heads": 1, "head_dim": 256, "parallel": True}),
        ("palm", {"intermediate_dim": 4 * 18432, "tie_embeddings": True}),
        ("llama_65b", {"intermediate_dim": 22016, "tie_embeddings": False}),
        ("t5_11b", {"intermediate_dim": 65536, "head_dim": 128}),
        ("t5_v1_1_xxl", {"tie_embeddings": False, "feed_forward": "geglu"}),
        ("lamda", {"intermediate_dim": 65536, "head_dim": 128}),
        ("glm_130b", {"intermediate_dim": 32768, "embedding_norm": True}),
        ("bloom", {"embedding_norm": True, "vocabulary_size": 250880}),
        ("bert_large", {"segments": 2, "pooler": True, "norm_placement": "post"}),
        ("gpt", {"norm_placement": "post", "max_sequence_length": 512}),
        ("gpt2_xl", {"norm_placement": "pre", "num_heads": 25, "head_dim": 64}),
        ("gpt2_xl", {"feed_forward": "gelu_tanh"}),  # as its code has it
        ("mixtral_8x22b", {"num_experts": 8, "top_k": 2, "num_key_value_heads": 8}),
        ("llama_65b", {"num_experts": None, "top_k": None}),
        ("vit_huge_14", {"patches": 256, "classes": 1000, "vocabulary_size": None}),
    ],
)
def test_facts_of_the_papers(name, facts):
    a = architectures[name]
    assert {key: getattr(a, key) for key in facts} == facts


def test_vocabularies():
    found = [architectures[row[0]].vocabulary_size for row in ROWS]
    assert found == [
        *(50257, 40000, 50272, 256000, 250880, 51200, 32000, 32000, 50000, 32000),
        *(256000, 32000, 150528, 32128),
    ]


def test_a_note_belongs_to_one_row():
    assert "sparse" in architectures["gpt3"].note
    assert "sparse" not in architectures["bloom"].note
    assert "has no biases" in architectures["llama_65b"].note


def test_it_is_a_mapping():
    assert "gpt3" in architectures and "gpt5" not in architectures
    assert architectures.get("gpt5") is None
    assert len(architectures) == len(list(architectures))
    assert repr(architectures).startswith("Architectures(gpt3, pangu_alpha,")
    with pytest.raises(KeyError, match='Did you mean "chinchilla"'):
        architectures["chinchila"]


def test_find_takes_a_name_or_a_row():
    assert find("opt") is architectures["opt"] is find(architectures["opt"])
    with pytest.raises(ValueError, match='no architecture "T5-11B". Did .* "t5_11b"'):
        find("T5-11B")
    with pytest.raises(TypeError, match="must be a name or a row .* received 3"):
        find(3)


def test_a_row_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        architectures["gpt3"].num_layers = 3


def test_scaled_keeps_proportions():
    a = architectures["palm"].scaled(hidden_dim=9216)
    assert (a.intermediate_dim, a.num_heads, a.head_dim) == (4 * 9216, 48, 128)
    assert (a.num_layers, a.num_key_value_heads) == (118, 1)
    a = architectures["palm"].scaled(num_heads=24)
    assert (a.hidden_dim, a.head_dim, a.num_key_value_heads) == (18432, 512, 1)
    a = architectures["gpt3"].scaled(num_heads=48)
    assert (a.head_dim, a.num_key_value_heads) == (256, 48)
    a = architectures["gpt3"].scaled(num_heads=6, num_key_value_heads=3, head_dim=5)
    assert (a.head_dim, a.num_key_value_heads) == (5, 3)
    a = architectures["gpt3"].scaled(hidden_dim=768, intermediate_dim=7)
    assert a.intermediate_dim == 7
    a = architectures["llama_65b"].scaled(hidden_dim=4096)
    assert a.intermediate_dim == 11008
    assert architectures["gpt3"].scaled(num_layers=2).size is None


@pytest.mark.parametrize("name", architectures)
def test_small_is_the_same_but_small(name):
    a, tiny = architectures[name], architectures[name].small()
    same = {
        *(
            "name",
            "kind",
            "norm",
            "norm_placement",
            "feed_forward",
            "use_bias",
            "position",
        ),
        *("tie_embeddings", "parallel", "embedding_norm", "segments", "pooler"),
    }
    assert {k: getattr(a, k) for k in same} == {k: getattr(tiny, k) for k in same}
    for what in (
        lambda x: x.head_dim * x.num_heads == x.hidden_dim,
        lambda x: x.num_key_value_heads == 1,
        lambda x: x.num_key_value_heads < x.num_heads,
        lambda x: (x.num_experts, x.top_k),
        lambda x: x.max_sequence_length is None,
        lambda x: x.classes > 0,
    ):
        assert what(a) == what(tiny)
    assert tiny.hidden_dim == 24 and tiny.num_layers == 2
    assert tiny.patches == (4 if tiny.kind == "vision" else 0)
    assert tiny.intermediate_dim == round(a.intermediate_dim * 24 / a.hidden_dim)


@hypothesis.given(st.integers(1, 7), st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_back_and_forth(times, heads):
    a = architectures["gpt2_small"]
    b = a.scaled(hidden_dim=times * 768, num_heads=heads)
    assert b.num_heads * b.head_dim == b.hidden_dim
    again = b.scaled(hidden_dim=768, num_heads=12, size=a.size)
    assert again == a


@pytest.mark.parametrize(
    ("name", "changes", "error", "message"),
    [
        ("gpt3", {"num_layer": 3}, TypeError, 'no num_layer. Did .* "num_layers"'),
        ("gpt3", {"hidden_dim": 100}, ValueError, "hidden_dim=100, received num_heads"),
        ("gpt3", {"hidden_dim": 0}, ValueError, "hidden_dim must be at least 1"),
        ("gpt3", {"num_heads": 0}, ValueError, "num_heads must be at least 1"),
        ("gpt3", {"num_layers": 2.5}, TypeError, "num_layers must be a whole number"),
        ("gpt3", {"head_dim": 0}, ValueError, "head_dim must be at least 1"),
        ("gpt3", {"kind": "decodr"}, ValueError, 'Did you mean "decoder"'),
        ("gpt3", {"norm": "deep"}, ValueError, 'norm="deep" is not one of'),
        (
            "gpt3",
            {"norm_placement": "rms"},
            ValueError,
            'norm_placement="rms" is not one of',
        ),
        ("gpt3", {"position": "rop"}, ValueError, 'Did you mean "rope"'),
        ("gpt3", {"use_bias": "no"}, ValueError, 'use_bias="no" is not one of'),
        ("gpt3", {"vocabulary_size": None}, TypeError, "vocabulary_size must be a who"),
        ("gpt3", {"max_sequence_length": None}, TypeError, "max_sequence_length must"),
        ("gpt3", {"classes": 3}, ValueError, "received classes=3 for GPT-3"),
        ("gpt3", {"num_key_value_heads": 5}, ValueError, "num_heads=96 must be a mult"),
        ("gpt3", {"num_key_value_heads": 0}, ValueError, "num_key_value_heads must be"),
        ("bert_base", {"segments": -1}, ValueError, "segments must be at least 0"),
        ("palm", {"head_dim": 5}, ValueError, "head_dim must be even"),
        ("t5_small", {"relative_buckets": 0}, ValueError, "relative_buckets must be"),
        ("mixtral_8x7b", {"top_k": 9}, ValueError, "at most num_experts=8, received 9"),
        ("mixtral_8x7b", {"top_k": None}, TypeError, "top_k must be a whole number"),
        ("gpt3", {"num_experts": 0, "top_k": 1}, ValueError, "num_experts must be at"),
        ("t5_small", {"num_experts": 4, "top_k": 1}, ValueError, "kind='encoder_dec"),
        ("rwkv4_169m", {"num_experts": 4, "top_k": 1}, ValueError, "='channel_mix'"),
        ("vit_base_16", {"patch_size": 15}, ValueError, "image_size=224 must be a mul"),
        (
            "vit_base_16",
            {"vocabulary_size": 5},
            ValueError,
            "for ViT base",
        ),
    ],
)
def test_what_is_wrong_is_said(name, changes, error, message):
    with pytest.raises(error, match=message):
        architectures[name].scaled(**changes)


def test_heads_that_are_not_said_fill_the_width():
    given = dataclasses.asdict(architectures["gpt2_small"])
    del given["head_dim"], given["num_key_value_heads"]
    assert Architecture(**given) == architectures["gpt2_small"]
    with pytest.raises(ValueError, match="hidden_dim=768 must be a multiple of num_he"):
        Architecture(**given | {"num_heads": 7})
