"""Random invalid arguments for public layers, models and functions.

A `Use` is a public callable with valid arguments. `tries` replaces one argument by a
value of `VALUES` and calls it. The result must be free of NaN, or a `ValueError` or
`TypeError` must name the argument and the received value.
"""

import random
import re
import tempfile
from typing import NamedTuple

import keras
import numpy as np

from kerasseq import datasets, decoding, layers, models, text, training
from tests.limits import TooLong, within

SECONDS, SECONDS_OF_HUGE = 30, 2
HUGE = 10**13  # exceeds the memory and the time of any machine
VALUES = [
    *(None, True, False, 0, 1, -1, 2, 2.5, -0.5, 1.5, HUGE, 10**19, -(10**19)),
    *(float("nan"), float("inf"), "", "x", "3", b"x", [], [1], ["a"], [None], ()),
    *((1, 2), {}, {"a": 1}, object, len, 1j, np.float32(0.5), np.int64(3)),
    *(
        np.zeros((2, 3)),
        np.zeros((0,)),
        np.array(2),
        np.ones((2, 3, 5, 7)),
        [[1, 2], [3]],
    ),
    *(
        np.array(["a"]),
        np.array([np.nan, 1.0]),
        [-1, 2],
        [0.5, 1.5],
        ["a", 1],
        range(3),
    ),
]


FUNCTIONS = ("activation", "initializer", "regularizer", "constraint")


class Use(NamedTuple):
    """A callable with valid arguments.

    Attributes:
        name: Name for messages.
        function: Function of keyword arguments that returns arrays, numbers or text.
        arguments: Valid arguments.
    """

    name: str
    function: object
    arguments: dict


class Outcome(NamedTuple):
    """The outcome of a call with one invalid argument.

    Attributes:
        use: Name of the use.
        argument: Name of the replaced argument.
        value: The value in its place.
        problem: Description of a wrong result or error, or None.
    """

    use: str
    argument: str
    value: object
    problem: str | None


def layer(cls, *inputs, **arguments):
    """Builds and calls a layer."""

    def function(**arguments):
        made = cls(**arguments)
        if cls.__name__.endswith("Cell"):
            return made(inputs[0][:, 0], made.get_initial_state(batch_size=2))
        return made(*inputs)

    return Use(cls.__name__, function, arguments)


def model(cls, *inputs, **arguments):
    """Builds and calls a model."""

    def function(**arguments):
        made = cls(**arguments)
        return made(inputs[0] if len(inputs) == 1 else list(inputs))

    return Use(cls.__name__, function, arguments)


X = np.linspace(-1, 1, 2 * 5 * 6).reshape(2, 5, 6).astype("float32")
HEADS = X.reshape(2, 5, 2, 3)
IDS = np.array([[1, 2, 3, 4, 0], [4, 3, 2, 1, 1]])
FEW = np.minimum(IDS, 1)  # valid for small vocabularies
IMAGES = np.linspace(0, 1, 2 * 4 * 4 * 3).reshape(2, 4, 4, 3).astype("float32")
TEXT = "a banana and a bandana in a cabana"
LETTERS = text.CharacterTokenizer().fit(TEXT)
SOUND = {"audio": X.reshape(2, 30), "lengths": np.array([30, 17])}
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "dropout": 0.0}
RECURRENT = {
    **{"units": 3, "use_bias": True, "activation": "tanh", "dropout": 0.0, "seed": 1},
    **{"kernel_initializer": "zeros", "bias_regularizer": None},
    **{"return_sequences": True, "recurrent_dropout": 0.0, "kernel_constraint": None},
}
CELL = {k: v for k, v in RECURRENT.items() if k != "return_sequences"}
MINIMAL = {
    k: v for k, v in RECURRENT.items() if k not in ("activation", "recurrent_dropout")
}
BLOCK = {
    **{"intermediate_dim": 7, "num_heads": 2, "dropout": 0.0, "activation": "relu"},
    **{"layer_norm_epsilon": 1e-5, "normalize_first": False, "norm": "layer"},
    **{
        "norm_placement": None,
        "feed_forward": None,
        "use_bias": True,
        "position": None,
    },
    **{"num_key_value_heads": None, "head_dim": None, "sliding_window": None},
    **{"scale": None, "parallel": False, "depth": None},
}
ATTENTION = {"dropout": 0.0, "seed": None, "hard": False, "sampled": False}


def of_layers():
    """Each public layer."""
    gates = {**RECURRENT, "recurrent_activation": "sigmoid"}
    wave = {"max_wavelength": 10000}
    return [
        layer(layers.ElmanRNN, X, **RECURRENT),
        layer(layers.SimpleRNN, X, **RECURRENT),
        layer(layers.GatedRNN, X, **gates),
        layer(layers.LSTM, X, **gates, peephole="full", coupled=False),
        layer(layers.PeepholeLSTM, X, **gates),
        layer(layers.GRU, X, **gates, reset_after=True, update="keep"),
        layer(layers.ElmanCell, X, **CELL),
        layer(layers.LSTMCell, X, **CELL, unit_forget_bias=True),
        layer(layers.GRUCell, X, **CELL),
        layer(layers.MinGRU, X, **MINIMAL),
        layer(layers.MinLSTM, X, **MINIMAL),
        layer(layers.SLSTM, X, **gates, num_heads=1, forget_gate="exp"),
        layer(layers.SLSTMCell, X, **CELL, num_heads=1, unit_forget_bias=True),
        layer(
            *(layers.CausalConv1D, X),
            **{"filters": 4, "kernel_size": 2, "dilation_rate": 2, "groups": 2},
            **{"activation": "tanh", "use_bias": True, "kernel_constraint": None},
            **{"kernel_initializer": "zeros", "bias_regularizer": None},
        ),
        layer(
            *(layers.WaveNet, X),
            **{"units": 3, "kernel_size": 2, "dilations": [1, 2], "stacks": 1},
            **{"skip_units": None, "use_bias": True, "dropout": 0.0, "seed": 1},
            **{"kernel_initializer": "zeros", "bias_initializer": "zeros"},
        ),
        layer(layers.AlignmentAttention, X, X, units=3, score="additive", **ATTENTION),
        layer(layers.BahdanauAttention, X, X, units=3, **ATTENTION),
        layer(layers.LuongAttention, X, X, score="general", **ATTENTION),
        layer(layers.LocationAttention, X, X, max_length=5, **ATTENTION),
        layer(layers.CosineAttention, X, X, **ATTENTION),
        layer(
            *(layers.MultiHeadAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "value_dim": None, "dropout": 0.0},
            **{"use_bias": True, "num_key_value_heads": None, "scale": None},
            **{"position": None, "sliding_window": None, "output_shape": None},
        ),
        layer(
            *(layers.BlockwiseAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "block_size": 2, "devices": 1},
        ),
        layer(
            *(layers.LongformerAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "sliding_window": 2},
            **{"max_global_tokens": 1},
        ),
        layer(
            *(layers.ReformerAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "num_buckets": 4, "num_hashes": 3},
            **{"chunk_length": 2, "seed": 0},
        ),
        layer(
            *(layers.LinformerAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "rank": 2, "max_length": 5},
            **{"share": "heads"},
        ),
        layer(
            *(layers.AdaptiveSpanAttention, X, X),
            **{"num_heads": 2, "key_dim": 3, "max_span": 3, "ramp": 2},
            **{"span_loss": 0.1, "initial_span": 1.0},
        ),
        *(
            layer(made, X, **{"num_heads": 2, "key_dim": 4, "value_dim": None}, **more)
            for made, more in (
                (layers.LinearAttention, {"causal": True, "use_bias": False}),
                (layers.GatedLinearAttention, {"decay_rank": 2, "epsilon": 1e-6}),
                (layers.GatedLinearAttention, {"decay_temperature": 16.0}),
                (layers.Retention, {**wave, "conv_kernel": 2}),
                (layers.DeltaNet, {"num_key_heads": 1, "gated": False}),
                (layers.MLSTM, {"soft_cap": 15.0, "epsilon": 1e-6}),
            )
        ),
        layer(layers.RWKV4TimeMix, X, units=3, layer_index=0, num_layers=2),
        layer(layers.RWKV4ChannelMix, X, intermediate_dim=7, num_layers=2),
        layer(
            *(layers.RWKV7TimeMix, X),
            **{"num_heads": 2, "key_dim": 3, "layer_index": 0, "num_layers": 2},
            **{"decay_rank": 2, "rate_rank": 3, "value_rank": 2, "gate_rank": None},
            **{"epsilon": 64e-5},
        ),
        layer(layers.RWKV7ChannelMix, X, intermediate_dim=7, num_layers=2),
        layer(layers.S4D, X, state_size=4, time_step_min=0.1, initialization="inv"),
        layer(layers.Mamba, X, state_size=3, expand=2, time_step_rank=1, use_bias=True),
        layer(
            *(layers.MemoryNetwork, 0 * IDS[:, 0], 0 * IDS),
            **{"vocabulary_size": 5, "dim": 3, "hops": 2, "tie": "adjacent"},
            **{"mask_zero": False, "embeddings_initializer": "ones"},
        ),
        layer(
            *(layers.NTMCell, X),
            **{"units": 3, "memory_size": 5, "memory_width": 2, "read_heads": 1},
            **{"write_heads": 2, "shift": 1},
        ),
        layer(
            *(layers.LinformerProjection, HEADS, HEADS, np.arange(5)[None]),
            **{"rank": 2, "max_length": 5, "share": "heads", "initializer": "ones"},
        ),
        layer(layers.AmplitudePosition, X, scale=1.0),
        layer(layers.SinePositionEncoding, X, **wave),
        layer(layers.PositionEmbedding, X, sequence_length=5, initializer="zeros"),
        layer(
            *(layers.TokenAndPositionEmbedding, 0 * IDS),
            **{"vocabulary_size": 5, "sequence_length": 5, "embedding_dim": 3},
            **{"tie_weights": True, "mask_zero": False},
        ),
        layer(
            *(layers.PositionalEmbedding, 0 * IDS),
            **{"sequence_length": 5, "input_dim": 5, "output_dim": 3},
        ),
        layer(layers.SegmentEmbedding, X, 0 * IDS, num_segments=2),
        layer(
            *(layers.RotaryEmbedding, HEADS[..., :2]),
            **{**wave, "scaling_factor": 1.0, "rope_type": "linear", "fraction": 1.0},
            **{"sequence_axis": 1, "feature_axis": -1, "interleaved": False},
        ),
        layer(layers.FeedForward, X, intermediate_dim=7, activation="relu", gated=True),
        layer(
            *(layers.MixtureOfExperts, X),
            **{"num_experts": 3, "intermediate_dim": 7, "feed_forward": "gelu"},
            **{"top_k": 1, "capacity_factor": 2.0, "norm_topk_prob": False},
            **{"router_aux_loss_coef": 0.1, "router_z_loss_coef": 0.1},
            **{"router_jitter_noise": 0.1, "shared_experts": 1},
        ),
        layer(layers.TransformerEncoder, X, **BLOCK),
        layer(layers.TransformerDecoder, X, X, **BLOCK),
        layer(
            *(layers.ConvSubsampling, X),
            **{"hidden_dim": 3, "factor": 2, "kernel_size": 3, "activation": "silu"},
            **{"use_bias": True, "kernel_initializer": "zeros"},
        ),
        layer(
            *(layers.ConformerBlock, X),
            **{"intermediate_dim": 7, "num_heads": 2, "kernel_size": 3, "seed": 1},
            **{"dropout": 0.0, "normalization": "batch", "activation": "silu"},
            **{"position": None, "head_dim": None, "use_bias": True},
            **{"use_convolution_bias": None, "layer_norm_epsilon": 1e-5},
        ),
        layer(
            *(layers.PatchEmbedding, IMAGES),
            **{"patch_size": 2, "hidden_dim": 3, "class_token": True},
            **{"image_size": 4, "interpolation": "bicubic", "use_bias": True},
        ),
        layer(
            *(layers.VectorQuantizer, X),
            **{"num_codes": 5, "dim": 6, "commitment": 0.25, "decay": 0.9},
            **{"epsilon": 1e-5, "threshold": 0.1, "seed": 1},
        ),
        layer(
            *(layers.LogMelSpectrogram, X[..., 0]),
            **{"num_mels": 2, "num_fft_bins": 8, "stride": 3, "sampling_rate": 1000},
            **{"mel_scale": "htk", "scale": "log", "min_freq": 0.0, "max_freq": 400.0},
        ),
        layer(
            *(layers.SpecAugment, X),
            **{"num_freq_masks": 1, "freq_mask_width": 2, "num_time_masks": 1},
            **{"time_mask_width": 2, "max_time_share": 1.0, "mask_value": None},
            **{"seed": 1},
        ),
    ]


def of_models():
    """Each public model."""
    task = {"architecture": "gru", "labels": 3, "features": 6, "units": 3}
    task |= {"num_layers": 1, "dropout": 0.0, "bidirectional": False}
    sizes = {"source_vocabulary_size": 5, "target_vocabulary_size": 5}
    block = {"norm": "layer", "feed_forward": "gelu", "use_bias": True}
    block |= {"num_key_value_heads": None, "head_dim": None, "intermediate_dim": 7}
    writing = {"max_sequence_length": 7, **SMALL, **block}
    return [
        model(models.SequenceClassifier, X, **task, mask_value=None),
        model(models.SequenceTagger, X, **task, activation=None),
        model(
            *(models.Forecaster, X),
            **{"architecture": "elman", "features": 6, "horizon": 2, "units": 3},
        ),
        model(
            *(models.SpeechRecognizer, SOUND),
            **{"architecture": "conformer", "tokenizer": LETTERS, "units": 4},
            **{"num_layers": 1, "num_heads": 2, "kernel_size": 3, "factor": 2},
            **{"normalization": "layer", "bidirectional": True, "dropout": 0.0},
            **{"num_mels": 3, "num_fft_bins": 16, "stride": 4, "sampling_rate": 99},
            **{"window": 2.0, "spec_augment": None},
        ),
        model(
            *(models.Whisper, {**SOUND, "target": FEW}),
            **{"tokenizer": None, "vocabulary_size": 5, **SMALL},
            **{"num_decoder_layers": 1, "intermediate_dim": 7, "max_length": 7},
            **{"num_mels": 3, "num_fft_bins": 16, "stride": 4, "sampling_rate": 99},
            **{"window": 2.0, "generation": None, "language": None},
            **{"task": "transcribe"},
        ),
        model(
            *(models.LanguageModel, FEW),
            **{"architecture": "gru", "vocabulary_size": 5, "units": 3},
            **{"num_layers": 1, "embedding_dim": 2, "dropout": 0.0, "tokenizer": None},
        ),
        model(
            *(models.Seq2Seq, FEW, FEW),
            **{"architecture": "gru", **sizes, "attention": "bahdanau", "units": 3},
            **{"num_layers": 1, "bidirectional": True, "input_feeding": False},
            **{"doubly_stochastic": 0.1, "reinforcement": None},
        ),
        model(models.Transformer, FEW, FEW, **sizes, **writing, position="sinusoidal"),
        model(models.T5, FEW, FEW, vocabulary_size=5, **SMALL, relative_buckets=8),
        model(
            *(models.GPT, 0 * IDS),
            **{"vocabulary_size": 5, **writing, "position": "learned"},
            **{"norm_placement": "pre", "parallel": False, "sliding_window": None},
            **{"layer_norm_epsilon": 1e-5, "embedding_scale": None, "head": "tokens"},
            **{"logit_soft_cap": None},
        ),
        Use(
            "BERT",
            lambda **a: models.BERT(**a).count_params(),
            {"vocabulary_size": 9, "max_sequence_length": 7, "num_segments": 2}
            | {**SMALL, "head": None, "activation": "gelu"},
        ),
        model(
            *(models.ViT, IMAGES),
            **{"labels": 3, "image_size": 4, "patch_size": 2, "channels": 3},
            **{**SMALL, **block, "pooling": "token", "interpolation": "bicubic"},
        ),
        Use("count", lambda **a: models.count(**a).total, {"architecture": "gpt3"}),
    ]


def fitted_tokenizer(cls, *, fit=TEXT, use="banana"):
    """Returns a function that fits a tokenizer, and encodes and decodes a text."""

    def function(text=fit, encoded=use, **arguments):
        made = cls(**arguments).fit(text)
        return made.decode(made.encode(encoded)), made.encode_batch([encoded]).ids

    return function


def of_text():
    """Tokenizers and statistical models."""
    both = {"text": TEXT, "encoded": "banana"}
    special = {"special_tokens": ["<a>"], "unknown": "<unk>"}
    batch = {"texts": ["a b", "c"], "length": 3, "pad": "right", "truncate": "left"}
    ids = [0, 1, 2, 1, 0, 2, 2, 1] * 3
    fitted = text.CharacterTokenizer().fit(TEXT)
    gram = text.NGramModel(2).fit(ids, 3)
    window = text.SlidingWindowModel(2).fit(ids, 3)
    markov = text.HiddenMarkovModel(2, 3, seed=0)
    regression = text.AutoRegression(2).fit([0.1, 0.5, 0.2, 0.4, 0.3, 0.9, 0.1])
    bag = text.BagOfWords().fit(["a b", "b c"])
    return [
        Use(
            "CharacterTokenizer",
            fitted_tokenizer(text.CharacterTokenizer),
            {**both, "unknown": "?"},
        ),
        Use(
            "WordTokenizer",
            fitted_tokenizer(text.WordTokenizer),
            {
                **both,
                **special,
                "vocabulary_size": 9,
                "min_count": 1,
                "lowercase": True,
            },
        ),
        Use(
            "BytePairTokenizer",
            fitted_tokenizer(text.BytePairTokenizer),
            {**both, **special, "vocabulary_size": 270, "level": "byte", "min_count": 2}
            | {"pattern": "gpt2", "all_bytes": True},
        ),
        Use(
            "WordPieceTokenizer",
            fitted_tokenizer(text.WordPieceTokenizer),
            {**both, "vocabulary_size": 60, "special_tokens": ["[UNK]"], "prefix": "##"}
            | {
                "lowercase": True,
                "strip_accents": None,
                "clean": True,
                "score": "count",
            }
            | {"max_word_length": 20, "min_count": 2, "unknown": "[UNK]"},
        ),
        Use(
            "UnigramTokenizer",
            fitted_tokenizer(text.UnigramTokenizer),
            {**both, **special, "vocabulary_size": 300, "byte_fallback": True}
            | {"max_piece_length": 5, "add_prefix_space": True, "lossless": None},
        ),
        Use(
            "RWKVTokenizer",
            lambda tokens: text.RWKVTokenizer(tokens).encode("aba"),
            {"tokens": [b"a", b"b", b"ab"]},
        ),
        Use("encode", fitted.encode, {"text": "banana"}),
        Use("decode", fitted.decode, {"ids": [0, 1, 2], "skip_special": False}),
        Use("encode_batch", lambda **a: fitted.encode_batch(**a).ids, batch),
        Use("unknown_characters", fitted.unknown_characters, {"text": "xyz"}),
        Use(
            "NGramModel",
            lambda ids, vocabulary_size, **a: (
                text.NGramModel(**a).fit(ids, vocabulary_size).cross_entropy([0, 1])
            ),
            {
                "n": 2,
                "k": 1.0,
                "smoothing": "add_k",
                "discount": None,
                "tokenizer": None,
            }
            | {"ids": ids, "vocabulary_size": 3},
        ),
        Use("NGramModel.probabilities", gram.probabilities, {"context": [1]}),
        Use(
            "NGramModel.sample",
            gram.sample,
            {"length": 4, "temperature": 0.5, "seed": 0},
        ),
        Use("NGramModel.perplexity", gram.perplexity, {"ids": [0, 1, 2]}),
        Use(
            "SlidingWindowModel",
            lambda ids, vocabulary_size, **a: (
                text.SlidingWindowModel(**a)
                .fit(ids, vocabulary_size)
                .cross_entropy([0, 1])
            ),
            {
                "window": 2,
                "k": 1.0,
                "unseen": "narrow",
                "ids": ids,
                "vocabulary_size": 3,
            },
        ),
        Use("SlidingWindowModel.probabilities", window.probabilities, {"context": [1]}),
        Use(
            "HiddenMarkovModel",
            lambda **a: text.HiddenMarkovModel(**a).log_likelihood([0, 1]),
            {"states": 2, "symbols": 3, "initial": [0.5, 0.5], "seed": 1}
            | {"transition": [[0.5, 0.5], [0.1, 0.9]], "emission": None},
        ),
        Use("viterbi", lambda ids: markov.viterbi(ids).states, {"ids": [0, 1]}),
        Use(
            "HiddenMarkovModel.fit",
            text.HiddenMarkovModel(2, 3, seed=0).fit,
            {"sequences": [[0, 1], [2]], "tolerance": 1e-3, "max_iterations": 2},
        ),
        Use("HiddenMarkovModel.sample", markov.sample, {"length": 3, "seed": 0}),
        Use(
            "AutoRegression",
            lambda series, **a: text.AutoRegression(**a).fit(series).coefficients,
            {"order": 1, "method": "least_squares", "fit_intercept": True}
            | {"series": [0.1, 0.5, 0.2, 0.4, 0.3, 0.9, 0.1]},
        ),
        Use("forecast", regression.forecast, {"steps": 3}),
        Use(
            "BagOfWords",
            lambda texts, **a: text.BagOfWords(**a).fit(texts).transform(["a"]),
            {"texts": ["a b", "b"], "lowercase": True, "punctuation": True, "n": 2}
            | {"max_words": 3},
        ),
        Use("BagOfWords.transform", bag.transform, {"texts": ["a b c"]}),
        Use(
            "IBMModel1",
            lambda sources, targets, **a: (
                text.IBMModel1(**a).fit(sources, targets).align("a", "b")
            ),
            {"sources": ["a b", "b"], "targets": ["b", "a"], "iterations": 2}
            | {"empty_word": True, "lowercase": False},
        ),
        Use("shannon_series", text.shannon_series, {"text": TEXT, "orders": (0, 1)}),
        Use("Eliza.reply", lambda **a: text.Eliza().reply(**a), {"text": "I am sad."}),
        Use("Eliza", lambda **a: text.Eliza(**a).reply("I am sad."), {"rules": "fr"}),
        Use("load_tokenizer", text.load_tokenizer, {"path": "no such file"}),
    ]


def written_wave(**arguments):
    """Returns the samples of a WAV file that was written."""
    with tempfile.TemporaryDirectory() as folder:
        datasets.write_wave(f"{folder}/a.wav", **arguments)
        return datasets.read_wave(f"{folder}/a.wav")


def of_datasets():
    """Data sets."""
    symbols = {
        "count": 3,
        "symbols": "abc",
        "min_length": 1,
        "max_length": 4,
        "seed": 0,
    }
    pairs = datasets.copy_task(9)
    names = {"count": 3, "source": "en", "target": "de", "low": 0, "high": 99}
    counted = {"size": 2, "largest": 20, "seed": 0, "step": -1}
    return [
        Use("copy_task", datasets.copy_task, symbols),
        Use("reverse_task", datasets.reverse_task, symbols),
        Use("sort_task", datasets.sort_task, symbols),
        Use("number_names", datasets.number_names, {**names, "seed": 0}),
        Use("counting", datasets.counting, counted),
        Use("number_word", datasets.number_word, {"number": 42}),
        Use(
            "dates",
            datasets.dates,
            {"count": 2, "languages": ("en",), "first": "1990-01-01", "seed": 0}
            | {"last": "1999-12-31"},
        ),
        Use(
            "parentheses",
            lambda **a: datasets.parentheses(**a).ids,
            {"size": 4, "colors": 2, "lengths": (2, 6), "kind": "training", "seed": 0},
        ),
        Use(
            "noisy_parentheses",
            lambda **a: datasets.noisy_parentheses(**a).labels,
            {"size": 4, "flipped": 0.1, "seed": 0},
        ),
        Use(
            "markov_source",
            lambda **a: datasets.markov_source(**a).probabilities,
            {"symbols": 3, "order": 1, "concentration": 0.4, "least": 0.01, "seed": 0},
        ),
        Use(
            "MarkovSource.sample",
            datasets.markov_source(3, order=1).sample,
            {"count": 2, "length": 5, "seed": 0},
        ),
        Use(
            "MarkovSource.bits",
            datasets.markov_source(3, order=1).bits,
            {"ids": np.array([[0, 1, 2]])},
        ),
        Use("is_balanced", datasets.is_balanced, {"sequence": [1, 3], "colors": 2}),
        Use(
            "series",
            lambda **a: datasets.series(**a).values,
            {
                "name": "ar",
                "length": 9,
                "coefficients": (0.5,),
                "noise": 1.0,
                "seed": 0,
            },
        ),
        Use(
            "windows",
            datasets.windows,
            {"values": np.arange(9.0), "length": 3, "horizon": 1, "stride": 1}
            | {"target": 0},
        ),
        Use(
            "split",
            datasets.split,
            {"pairs": pairs, "fractions": (0.5, 0.5), "seed": 0},
        ),
        Use("sample", datasets.sample, {"name": "copy", "count": 2, "seed": 0}),
        Use("generated_pairs", datasets.generated_pairs, {"name": "copy", "count": 2}),
        Use(
            "symbol_ids",
            datasets.symbol_ids,
            {"texts": ["ab", "c"], "symbols": "abc", "length": 3},
        ),
        Use("calendar_features", datasets.calendar_features, {"dates": ["2024-02-29"]}),
        Use("season_features", datasets.season_features, {"dates": ["2024-02-29"]}),
        Use(
            "names_by_language",
            datasets.names_by_language,
            {"languages": ("en", "de"), "test": 0.2, "seed": 0},
        ),
        Use(
            "python_tokens",
            datasets.python_tokens,
            {"count": 5, "unit": "word", "bio": False, "seed": 0},
        ),
        Use("text_file", datasets.text_file, {"path": __file__, "encoding": "utf-8"}),
        Use("read_pairs", datasets.read_pairs, {"path": "no file", "limit": 3}),
        Use(
            "read_preferences",
            datasets.read_preferences,
            {"path": "no file", "limit": 3, "encoding": "utf-8"},
        ),
        Use(
            "read_conversations",
            datasets.read_conversations,
            {"path": "no file", "limit": 3, "encoding": "utf-8"},
        ),
        Use(
            "conversations",
            lambda **a: datasets.conversations(**a).answers,
            {"language": "en", "highest": 3, "seed": 0},
        ),
        Use(
            "preferences",
            datasets.preferences,
            {"prompts": ["a:"], "answers": [["b", "cc"]], "votes": "best", "seed": 0}
            | {"reward": lambda prompt, answer: len(answer)},
        ),
        Use(
            "morse",
            lambda **a: datasets.morse(**a).texts,
            {"count": 2, "text": "a bc", "min_length": 1, "max_length": 2, "seed": 0}
            | {"sampling_rate": 900, "dot": (0.05, 0.1), "rhythm": 0.1, "fading": 3.0}
            | {"pitch": (100.0, 200.0), "snr": (10.0, 25.0)},
        ),
        Use("morse_code", datasets.morse_code, {"text": "SOS"}),
        Use("read_wave", datasets.read_wave, {"path": "no file", "sampling_rate": 800}),
        Use(
            "write_wave",
            written_wave,
            {"audio": [0.5, 0.1], "sampling_rate": 800},
        ),
        Use(
            "audio_folder",
            datasets.audio_folder,
            {"path": "no file", "table": None, "audio_column": None, "encoding": "utf8"}
            | {"text_column": None, "sampling_rate": 800, "missing": "skip"},
        ),
        Use(
            "scenes",
            lambda **a: datasets.scenes(**a).texts,
            {"count": 2, "objects": 1, "frames": 4, "sound": True, "size": 24}
            | {"language": "fr", "noise": 0.1, "lighting": 0.1, "held_out": 0.2}
            | {"unseen": True, "sampling_rate": 8000, "seed": 0},
        ),
        Use(
            "film_halves",
            datasets.film_halves,
            {"films": np.zeros((1, 4, 2, 2, 3)), "shuffle": True, "seed": 0},
        ),
        Use(
            "captioned_images",
            datasets.captioned_images,
            {"path": "no file", "table": None, "image_column": None}
            | {"text_column": None, "encoding": "utf8", "missing": "skip"},
        ),
        Use(
            "spoken_digits",
            datasets.spoken_digits,
            {"path": "no file", "speakers": ["ada"], "sampling_rate": 800},
        ),
        Use(
            "read_tagged",
            datasets.read_tagged,
            {"path": "no file", "limit": 3, "word_column": 0, "tag_column": -1}
            | {"separator": None, "comments": None, "encoding": "utf-8"},
        ),
        Use(
            "slides",
            lambda **a: datasets.slides(**a).title,
            {"name": "E:575", "deck": None},
        ),
    ]


def of_decoding():
    """Samplers and generation loops."""
    table = keras.ops.convert_to_tensor(np.eye(3, dtype="float32"))

    def step(state, ids):
        return keras.ops.take(table, ids, axis=0), state

    def generated(prompt, **arguments):
        state = keras.ops.zeros((np.shape(prompt)[0] if np.ndim(prompt) else 1, 1))
        return decoding.generate(step, state, prompt, **arguments).ids

    def streamed(prompt, **arguments):
        state = keras.ops.zeros((np.shape(prompt)[0] if np.ndim(prompt) else 1, 1))
        return list(decoding.stream(step, state, prompt, **arguments))

    def sampled(cls):
        return lambda **a: generated(
            prompt=[[0, 1]], max_new_tokens=2, sampler=cls(**a)
        )

    loop = {"prompt": [[0, 1], [2, 1]], "max_new_tokens": 2}
    loop |= {"mask": None, "stop": None}
    loop |= {"sampler": None, "fill": 0, "seed": 0}
    return [
        Use(
            "RandomSampler",
            sampled(decoding.RandomSampler),
            {"temperature": 0.5, "top_k": 2, "top_p": 0.9, "min_p": 0.1},
        ),
        Use("generate", generated, loop),
        Use("stream", streamed, loop),
        Use("Temperature", sampled(decoding.Temperature), {"temperature": 0.5}),
        Use("TopK", sampled(decoding.TopK), {"k": 2, "temperature": 1.0}),
        Use("TopP", sampled(decoding.TopP), {"p": 0.5, "temperature": 1.0}),
        Use("MinP", sampled(decoding.MinP), {"p": 0.5, "temperature": 1.0}),
        Use(
            "Beam",
            lambda **a: repr(decoding.Beam(**a)),
            {"width": 2, "length_penalty": 0.5, "n_best": 1},
        ),
    ]


def of_ctc():
    """The loss of CTC, its labels, texts and their frames, and error rates."""
    logits = np.random.default_rng(0).normal(size=(2, 5, 4))
    given = {"logits": logits, "lengths": [5, 3], "blank": -1}
    model = text.NGramModel(2).fit([0, 1, 2, 1], 3)
    search = {"beam": 2, "language_model": model, "weight": 0.5, "bonus": 0.1}
    return [
        Use("ctc_greedy", decoding.ctc_greedy, given),
        Use("ctc_beam", decoding.ctc_beam, {**given, **search}),
        Use("ctc_align", decoding.ctc_align, {**given, "tokens": [[0, 1], [2]]}),
        Use("CTC", lambda **a: training.CTC(**a).name, {"blank": -1}),
        Use(
            "check_ctc_labels",
            training.check_ctc_labels,
            {"labels": [[0, 1]], "frames": [5], "num_symbols": 3, "blank": -1},
        ),
        *(
            Use(rate.__name__, rate, {"texts": ["a b"], "references": ["a c"]})
            for rate in (training.character_error_rate, training.word_error_rate)
        ),
    ]


def of_training():
    """Batches, masks, metrics."""
    ids = np.arange(60) % 7
    texts = {"hypotheses": ["a b c d"], "references": ["a b c d"], "lowercase": False}
    pairs = {"sources": [[3, 4], [5]], "targets": [[3], [4, 5]], "batch_size": 2}
    documents = [[[5, 6], [7], [8, 9]], [[5], [6, 7]]]
    writer = models.LanguageModel("gru", text.CharacterTokenizer().fit("abc"), units=3)
    votes = {"prompt": ["a"], "chosen": ["b"], "rejected": ["c"]}

    rewarded = training.GRPO(
        writer,
        lambda prompts, answers: [1.0] * len(answers),
        num_generations=2,
        max_new_tokens=2,
    )

    def batches(cls):
        return lambda **a: cls(**a).batch(0)

    def masked(ids=ids, **arguments):
        return training.MaskedLMMaskGenerator(**arguments)(ids)

    def schedule(**arguments):
        return float(training.ScheduledSampling(**arguments).ratio_at(3))

    return [
        Use(
            "TextBatches",
            batches(training.TextBatches),
            {"ids": ids, "sequence_length": 4, "batch_size": 2, "seed": 0},
        ),
        Use(
            "ArrayBatches",
            batches(training.ArrayBatches),
            {"x": X, "y": np.zeros(2), "batch_size": 2, "seed": 0},
        ),
        Use(
            "PairBatches",
            batches(training.PairBatches),
            {**pairs, "seed": 0, "groups": 1, "marks": (1, 2)}
            | {"sample_weight": [1.0, 0.5]},
        ),
        Use(
            "SentencePairs",
            batches(training.SentencePairs),
            {"documents": documents, "start": 1, "end": 2, "padding": 0, "seed": 0}
            | {"sequence_length": 16, "batch_size": 2, "next_rate": 0.5},
        ),
        Use(
            "MaskedLMMaskGenerator",
            masked,
            {"vocabulary_size": 9, "mask_token_id": 8, "unselectable_token_ids": (0,)}
            | {"mask_selection_rate": 0.5, "mask_token_rate": 0.8}
            | {"random_token_rate": 0.1, "seed": 0, "ids": IDS},
        ),
        Use(
            "SpanCorruption",
            lambda ids, **a: training.SpanCorruption(**a)(ids),
            {"sentinels": [7, 8, 9], "rate": 0.3, "mean_length": 2.0, "seed": 0}
            | {"ids": [1, 2, 3, 4, 5, 6]},
        ),
        Use(
            "ScheduledSampling",
            lambda **a: repr(training.ScheduledSampling(**a)),
            {"schedule": "linear", "ratio": None, "steps": 9, "lowest": 0.1}
            | {"sampled": False},
        ),
        Use(
            "Reinforcement",
            lambda **a: repr(training.Reinforcement(**a)),
            {"weight": 1.0, "entropy": 0.01, "baseline_decay": 0.9, "soft_share": 0.5},
        ),
        Use(
            "DPO",
            lambda **a: training.DPO(**a).name,
            {"model": writer, "beta": 0.1, "reference": None},
        ),
        Use(
            "GRPO",
            lambda **a: training.GRPO(**a).name,
            {"model": writer, "reward": lambda prompts, answers: [1.0] * len(answers)}
            | {"num_generations": 2, "beta": 0.04, "epsilon": 0.2, "stop": None}
            | {"scale_rewards": True, "use_bias_correction_kl": True}
            | {"num_iterations": 1, "max_new_tokens": 2, "temperature": 1.0}
            | {"reference": None},
        ),
        Use(
            "sample_answers",
            lambda **a: writer.sample_answers(**a).ids,
            {"prompts": ["ab", "c"], "max_new_tokens": 2, "temperature": 1.0}
            | {"stop": "a", "seed": 0},
        ),
        Use(
            "answer_batches",
            lambda **a: writer.answer_batches(**a).batch(0),
            {"x": ["ab", "c"], "y": ["b", "ca"], "sample_weight": [1.0, 0.5]}
            | {"sequence_length": 4, "batch_size": 2, "seed": 0},
        ),
        Use(
            "GRPO.fit",
            lambda **a: sorted(rewarded.fit(**a, verbose=0).history),
            {"prompts": ["ab", "c"], "batch_size": 2, "epochs": 1, "initial_epoch": 0}
            | {"steps_per_epoch": None, "seed": 0},
        ),
        Use(
            "GRPO.sample",
            lambda **a: rewarded.sample(**a)["rewards"],
            {"prompts": ["ab", "c"], "seed": 0},
        ),
        Use(
            "GRPO.evaluate",
            lambda **a: sorted(rewarded.evaluate(**a)),
            {"prompts": ["ab", "c"], "batch_size": 2, "seed": 0},
        ),
        Use("DPO.encode", lambda **a: training.DPO(writer).encode(**a), {"x": votes}),
        Use("bleu", training.bleu, {**texts, "tokenize": "13a"}),
        Use("chrf", training.chrf, {**texts, "word_order": 0}),
        Use(
            "exact_match",
            training.exact_match,
            {"hypotheses": ["a"], "references": ["a"]},
        ),
        Use(
            "classification_report",
            training.classification_report,
            {"y_true": [0, 1], "y_pred": [0, 0], "names": ["a", "b"]},
        ),
        Use(
            "confusion_matrix",
            training.confusion_matrix,
            {"y_true": [0, 1], "y_pred": [0, 0], "names": None},
        ),
        Use(
            "multilabel_f1",
            training.multilabel_f1,
            {"y_true": [[0, 1]], "y_pred": [[1, 1]], "average": "micro"},
        ),
        Use(
            "ratings",
            lambda **a: str(training.ratings(**a)),
            {"votes": [("a", "b"), ("b", "a")], "prior": 0, "samples": 7, "seed": 0},
        ),
        Use("elo", training.elo, {"votes": [("a", "b")], "k": 32, "start": 1000}),
        Use("entities", training.entities, {"tags": ["B-X", "O"], "scheme": None}),
        Use(
            "entity_scores",
            training.entity_scores,
            {"true": [["O"]], "predicted": [["B-X"]], "scheme": None},
        ),
        Use(
            "Perplexity",
            lambda **a: training.Perplexity(**a).result(),
            {"from_logits": True},
        ),
        Use(
            "CodePerplexity",
            lambda **a: training.CodePerplexity(**a).result(),
            {"num_codes": 5, "name": "a"},
        ),
        Use(
            "TokenAccuracy",
            lambda **a: training.TokenAccuracy(**a).result(),
            {"name": "a"},
        ),
        Use(
            "Denoising",
            lambda text, **a: training.Denoising(**a)(text),
            {"kinds": ("permute", "infill"), "seed": 0, "mask_token_id": 9}
            | {"sentence_end_ids": [4], "rate": 0.3, "mean_length": 3.0}
            | {"text": [1, 2, 3, 4, 5, 6]},
        ),
        Use(
            "power_law",
            lambda **a: training.power_law(**a).exponent,
            {"sizes": [10, 100], "losses": [[2.0, 2.1], [1.0, 1.1]], "floor": 0.5}
            | {"samples": 3, "seed": 0},
        ),
        Use(
            "forecast_excess",
            lambda forecasts, x, y: training.forecast_excess(
                forecasts, datasets.AutoregressiveProcess([0.5]), x, y
            ),
            {"forecasts": [[1.0], [2.0]], "x": [[1.0], [2.0]], "y": [[1.0], [3.0]]},
        ),
        Use("on_devices", _on_devices, {"devices": 1}),
    ]


def _on_devices(devices):
    with training.on_devices(devices):
        return devices


def all_uses():
    """Returns all uses, in a fixed order."""
    parts = (of_text, of_datasets, of_decoding, of_ctc, of_training)
    parts += (of_models, of_layers)
    return [use for part in parts for use in part()]


def tries(uses, count, seed=0):
    """Yields the outcomes of `count` random uses with one argument replaced."""
    draw = random.Random(seed)
    for _ in range(count):
        use = draw.choice(uses)
        argument = draw.choice([*use.arguments])
        value = draw.choice(VALUES)
        yield tried(use, argument, value)


def tried(use, argument, value):
    """Returns the outcome of a use with one argument replaced."""
    arguments = {**use.arguments, argument: value}
    try:
        huge = isinstance(value, int) and abs(value) >= 10**9
        with within(SECONDS_OF_HUGE if huge else SECONDS), np.errstate(all="ignore"):
            result = use.function(**arguments)
            problem = problem_of_result(result)
    except (ValueError, TypeError, OSError, KeyError) as error:
        problem = problem_of_error(error, argument, value, use.arguments)
    except TooLong as error:
        # The huge number of steps is valid.
        problem = None if value == HUGE else str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if value is len and argument.rpartition("_")[2] in FUNCTIONS:
        problem = None  # a user's function may raise any error
    return Outcome(use.name, argument, value, problem and problem[:400])


def problem_of_result(result):
    """Returns a problem if a result has NaN, or None."""
    for part in keras.tree.flatten(result):
        if isinstance(part, str | bytes) or part is None:
            continue
        if keras.ops.is_tensor(part):
            part = keras.ops.convert_to_numpy(part)
        is_number = isinstance(part, np.ndarray | float)
        part = np.asarray(part if is_number else 0)
        if part.dtype.kind == "f" and np.isnan(part).any():
            return "the result has NaN"
    return None


def problem_of_error(error, argument, value, arguments):
    """Returns a problem if an error lacks the argument or the value, or None."""
    message = str(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return None
    if isinstance(error, KeyError | OSError | UnicodeError):
        return f"{type(error).__name__}: {message}"
    if "Input 0 with name" in message and "received" in message:
        return None  # Keras checks the shape by `input_spec`
    plain = message.replace("`", "")
    # If two arguments contradict each other, the error may name either.
    names = [argument, argument.rpartition("_")[2], argument.rstrip("s")]
    others = [name for name in arguments if name != argument]
    if not any(re.search(rf"\b{re.escape(name)}", plain) for name in names + others):
        return f"names no argument: {message}"
    if not any(word in message for word in shown(value)):
        return f"does not show the value: {message}"
    return None


def shown(value):
    """Returns ways to show a value: itself, its type, shape, or number of items."""
    words = {repr(value)[:30], str(value)[:30], type(value).__name__, f'"{value}"'}
    if isinstance(value, int) and not isinstance(value, bool):
        words.add(f"{value:,}")
    if isinstance(value, np.ndarray | np.generic | float | int | bool) or value is None:
        words |= {str(np.shape(value)), str(np.asarray(value).dtype)}
    elif not isinstance(value, str | bytes):
        words |= {"array of", "() of object"}
    parts = [value]
    if isinstance(value, str | bytes | list | tuple | dict | range | np.ndarray):
        if not (value.size if isinstance(value, np.ndarray) else len(value)):
            words |= {"empty", "at least", "()", "no "}
        if np.ndim(value) if isinstance(value, np.ndarray) else True:
            words.add(str(len(value)))
            parts = [*value]
    for part in parts:
        words |= {repr(part)[:30], str(part)[:30], type(part).__name__}
    return {word for word in words if word}
