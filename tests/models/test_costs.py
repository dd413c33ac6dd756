"""Operations and memory of architectures, against the formulas of the papers."""

import dataclasses

import pytest

from kerasseq.published.architectures import architectures
from kerasseq.published.costing import costs
from kerasseq.published.counting import count

pytestmark = pytest.mark.once("arithmetic on integers")


def test_operations_by_the_formula_of_palm():
    """Chowdhery et al. 2022, appendix B: 6P + 12LNHT per token, P without tables."""
    a = architectures["gpt3"]
    found = costs(a, sequence_length=1999)
    matrices = count(a).total - a.vocabulary_size * a.hidden_dim
    scores = 12 * a.num_layers * a.num_heads * a.head_dim * 1999
    assert found.training_flops == 6 * matrices + scores


def test_operations_of_the_training_of_gpt3():
    """Brown et al. 2020, table D.1: 3.14e23 for 300 billion tokens, without scores."""
    found = costs("gpt3", sequence_length=1).training_flops * 300e9
    assert found == pytest.approx(3.14e23, rel=0.01)


@pytest.mark.parametrize("name", ["gpt3", "opt", "gpt2_xl"])
def test_activations_by_the_formula_of_korthikanti(name):
    """Korthikanti et al. 2022, equation 2: s b h L (34 + 5 a s / h) bytes."""
    a = architectures[name]
    s, b, h, heads = 1024, 3, a.hidden_dim, a.num_heads
    found = costs(a, sequence_length=s, batch_size=b)
    assert found.activations_bytes == s * b * a.num_layers * (34 * h + 5 * heads * s)


def test_memory_of_training_is_16_bytes_per_parameter():
    for dtype in ("bfloat16", "float32"):
        found = costs("gpt2_small", dtype=dtype)
        states = found.training_bytes - found.activations_bytes
        assert states == 16 * 124_439_808
    assert costs("gpt2_small").weights_bytes == 2 * 124_439_808


def test_the_cache():
    llama = architectures["llama_7b"]
    found = costs(llama, sequence_length=11, batch_size=3, dtype="float32")
    assert found.cache_bytes == 2 * 32 * 4096 * 11 * 3 * 4
    shared = dataclasses.replace(llama, num_key_value_heads=1)
    assert costs(shared).cache_bytes * 32 == costs(llama).cache_bytes
    assert costs("bert_base").cache_bytes == costs("vit_base_16").cache_bytes == 0
    t5 = architectures["t5_small"]  # keys and values of target and source
    assert costs(t5, sequence_length=7).cache_bytes == 2 * 2 * 6 * 512 * 7 * 2


def test_states_do_not_grow_with_the_text():
    for name, numbers in (
        ("mamba_130m", 24 * 1536 * (16 * 4 + 3 * 2)),  # float32, and 3 inputs in 16 bit
        ("rwkv4_169m", 12 * 768 * (2 * 2 + 3 * 4)),
        ("rwkv7_191m", 12 * 768 * (2 * 2 + 64 * 4)),  # a column of 64 for each channel
    ):
        short, long = (costs(name, sequence_length=n, batch_size=3) for n in (7, 7000))
        assert short.cache_bytes == long.cache_bytes == 3 * numbers
        assert short.forward_flops == long.forward_flops


def test_experts_cost_what_a_token_uses():
    """Operations are those of two of eight experts, memory is that of all."""
    found = costs("mixtral_8x7b", sequence_length=1999)
    assert found.parameters == 46_702_792_704
    assert found.active_parameters == 12_879_925_248
    a = architectures["mixtral_8x7b"]
    norms, table = (2 * a.num_layers + 1) * a.hidden_dim, 32000 * a.hidden_dim
    scores = 4 * a.num_layers * a.num_heads * a.head_dim * 1999
    assert found.forward_flops == 2 * (12_879_925_248 - norms - table) + scores
    assert found.weights_bytes == found.gradients_bytes == 2 * 46_702_792_704
    assert found.optimizer_bytes == 12 * 46_702_792_704
    dense = dataclasses.replace(a, num_experts=None, top_k=None)
    more = (
        found.activations_bytes - costs(dense, sequence_length=1999).activations_bytes
    )
    d, F = a.hidden_dim, a.intermediate_dim
    chosen = 2 * 2 * (2 * d + 3 * F) - 2 * 3 * F + 4 * 8  # rows, inside, router
    assert more == 1999 * a.num_layers * chosen


def test_a_second_stack_reads_the_source():
    one = costs("t5_small", sequence_length=7).forward_flops
    more = costs("t5_small", sequence_length=8).forward_flops
    assert more - one == 4 * 6 * 3 * 512  # three attentions in six layers


@pytest.mark.parametrize("name", list(architectures))
def test_every_architecture(name):
    a = architectures[name]
    found = costs(a, batch_size=2)
    assert found.parameters == count(a, what="all").total
    # 0.26 of the smallest RWKV-7 are an embedding that is not tied, which is looked up.
    least = 0.74 if name == "rwkv7_191m" else 0.75
    # Scores of 65,536 tokens take more than the matrices.
    most = 2.2 if name == "mixtral_8x22b" else 1.7
    assert least < found.forward_flops / (2 * found.active_parameters) < most
    assert found.training_bytes > 4 * found.inference_bytes - 4 * found.cache_bytes
    if a.kind == "vision":
        assert found.sequence_length == a.patches + 1


def test_devices_hold_a_training():
    found = costs("gpt3")
    cards = found.devices(32e9)
    assert (cards - 1) * 32e9 < found.training_bytes <= cards * 32e9
    assert found.devices(found.training_bytes) == 1
    with pytest.raises(ValueError, match="memory"):
        found.devices(0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"dtype": "int4"}, "dtype"),
        ({"batch_size": 0}, "batch_size"),
        ({"sequence_length": 0}, "sequence_length"),
    ],
)
def test_wrong_arguments(options, error):
    with pytest.raises(ValueError, match=error):
        costs("gpt3", **options)
