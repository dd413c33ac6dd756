"""Further layers, models and data sets with valid arguments; see `tests.uses`."""

import keras
import numpy as np

from kerasseq import datasets, layers, models, text, training
from tests.uses import (
    CELL,
    FEW,
    HEADS,
    IDS,
    MINIMAL,
    SMALL,
    SOUND,
    TEXT,
    Use,
    X,
    layer,
    model,
)

MINIMAL_CELL = {k: v for k, v in MINIMAL.items() if k != "return_sequences"}
SCORES = HEADS.transpose(0, 2, 1, 3) @ HEADS.transpose(0, 2, 3, 1)  # (B, H, T, T)


def of_layers():
    """Cells, stacks, biases of attention scores, norms, and the CRF."""
    cells = {"return_sequences": True, "return_state": False}
    return [
        layer(layers.GatedCell, X, **CELL),
        layer(layers.MinGRUCell, X, **MINIMAL_CELL),
        layer(layers.MinLSTMCell, X, **MINIMAL_CELL),
        layer(layers.RNN, X, cell=layers.GRUCell(3), go_backwards=False, **cells),
        Use(
            "StackedRNN",
            lambda **a: layers.StackedRNN(
                [layers.GRUCell(3), layers.GRUCell(3)], **{**a, "return_state": False}
            )(X),
            {**cells, "bidirectional": False, "residual": False},
        ),
        layer(layers.KernelAttention, X, X, width=1.0, learnable=True),
        layer(layers.AlibiBias, SCORES, alibi_bias_max=8),
        layer(
            *(layers.RelativePositionBias, SCORES),
            **{"num_buckets": 8, "max_distance": 16, "bidirectional": True},
            **{"initializer": "zeros"},
        ),
        layer(layers.LayerNormalization, X, axis=-1, epsilon=1e-3, center=True),
        layer(layers.RMSNormalization, X, axis=-1, epsilon=1e-6),
        layer(layers.CRF, X, num_tags=6, initializer="zeros"),
    ]


def of_models():
    """Models with a recurrence, the encoder of T5, word vectors, costs."""
    sizes = {"vocabulary_size": 5, "num_layers": 1, "hidden_dim": 6, "dropout": 0.0}
    sizes |= {"head": "tokens", "tie_embeddings": True, "layer_norm_epsilon": 1e-5}
    vectors = {"method": "skip_gram", "dimensions": 3, "window": 2, "negatives": 2}
    vectors |= {"min_count": 1, "max_words": None, "subsample": None, "seed": 0}

    def fitted(**arguments):
        models.WordVectors(**arguments).fit([TEXT] * 4, epochs=1, verbose=0)

    def reinforced(**arguments):
        places = keras.Input(X.shape[1:])
        look = layers.LuongAttention("general", hard=True, gradient="reinforce")
        glimpses = keras.Model(places, look(places, places))
        models.ReinforcedModel(glimpses, **arguments)(X)

    def multimodal(**arguments):
        model = models.Multimodal(letters, **arguments)
        images = np.zeros((2, 4, 6, arguments["channels"]), "float32")
        model({"images": images, **SOUND, "ids": IDS})

    template = text.ChatTemplate(user="q", assistant="a", system="s", end=".")
    letters = text.CharacterTokenizer().fit("qas. xy")
    letters.chat_template = template
    speaker = models.LanguageModel("gru", letters, units=3)

    return [
        Use(
            "Multimodal",
            multimodal,
            {"image_size": (4, 6), "patch_size": 2, "channels": 3, "factor": 2}
            | {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "dropout": 0.0}
            | {"intermediate_dim": 7, "max_sequence_length": 5, "window": 2.0}
            | {"num_mels": 3, "num_fft_bins": 16, "stride": 4, "sampling_rate": 99}
            | {"head": "contrastive", "loss": "softmax", "num_experts": 2}
            | {"resize": "crop", "codebook": None},
        ),
        Use(
            "PictureTokenizer",
            lambda **a: models.PictureTokenizer(**a)(np.zeros((2, 4, 6, 3), "float32")),
            {"image_size": (4, 6), "patch_size": 2, "channels": 3, "num_codes": 5}
            | {"hidden_dim": 7, "code_dim": 3, "commitment": 0.25, "decay": 0.97}
            | {"threshold": 0.02, "resize": "crop", "seed": 1},
        ),
        Use(
            "Chat",
            lambda **a: models.Chat(speaker, **a).ask("x"),
            {"system": "y", "max_new_tokens": 3, "num_best": 2, "seed": 0}
            | {"temperature": 1.0, "top_k": 3, "top_p": 0.9, "min_p": 0.1},
        ),
        Use(
            "WhisperGeneration",
            models.WhisperGeneration,
            {"start": 7, "end": 8, "padding": None, "languages": {"en": 9}}
            | {"tasks": {"transcribe": 10}, "no_timestamps": 13, "previous": 11}
            | {"first_timestamp": None, "no_speech": None, "max_length": 5}
            | {"suppress_tokens": [3], "begin_suppress_tokens": [4]}
            | {"max_initial_timestamp_index": 6, "alignment_heads": [(0, 1)]},
        ),
        Use(
            "ReinforcedModel",
            reinforced,
            {"reward": "accuracy", "weight": 0.5, "baseline_decay": 1.0},
        ),
        model(
            *(models.Mamba, 0 * IDS),
            **{**sizes, "state_size": 3, "conv_kernel": 2, "expand": 2},
            **{"time_step_rank": None, "use_bias": False, "use_conv_bias": True},
        ),
        model(
            *(models.RWKV, 0 * IDS),
            **{**sizes, "attention_dim": None, "intermediate_dim": None},
        ),
        model(
            *(models.XLSTM, 0 * IDS),
            **{**sizes, "num_heads": 2, "query_dim": None, "value_dim": 4},
            **{"intermediate_dim": None, "slstm_at": [0], "soft_cap": 15.0},
            **{"logit_soft_cap": 30.0},
        ),
        model(
            *(models.RWKV, 0 * IDS),
            **{**sizes, "version": 7, "head_dim": 2, "decay_rank": 2, "rate_rank": 3},
            **{"value_rank": None, "gate_rank": 2},
        ),
        model(
            *(models.T5Encoder, 0 * IDS),
            **{**SMALL, "vocabulary_size": 5, "relative_buckets": 8},
            **{"head_dim": None, "feed_forward": "relu", "layer_norm_epsilon": 1e-6},
        ),
        Use("WordVectors", fitted, vectors),
        Use(
            "load_lora_weights",
            lambda **a: models.GPT(vocabulary_size=5, **SMALL).load_lora_weights(**a),
            {"path": "no file", "name": "other"},
        ),
        Use(
            "costs",
            lambda **a: models.costs(**a).forward_flops,
            {"architecture": "gpt3", "sequence_length": 7, "batch_size": 1}
            | {"dtype": "bfloat16"},
        ),
        Use(
            "layers.costs",
            lambda **a: layers.costs(**a).forward_flops,
            {"name": "gla", "sequence_length": 7, "units": 4, "input_dim": None}
            | {"num_layers": 1, "dtype": "float32"},
        ),
        model(
            *(models.BART, FEW, FEW),
            **{**SMALL, "vocabulary_size": 5, "intermediate_dim": 7},
            **{"max_sequence_length": 6, "feed_forward": "gelu"},
            **{"norm_placement": "pre", "scale_embeddings": True},
            **{"num_decoder_layers": 2, "start_id": 2, "first_id": 0},
        ),
        Use(
            "matched_width",
            lambda **a: models.matched_width(lambda width: 3 * width**2, **a),
            {"parameters": 300, "start": 3, "multiple": 2, "tolerance": 0.05},
        ),
    ]


def of_datasets():
    """Sentences of a family tree, analogies, and files of images."""
    family, _ = datasets.family_sentences(30)
    made = {"size": 30, "errors": 0.0, "seed": 0}
    return [
        Use(
            "family_sentences",
            lambda **a: len(datasets.family_sentences(**a)[0]),
            {**made, "test": 0.2},
        ),
        Use(
            "unlabeled_family_sentences",
            lambda **a: len(datasets.unlabeled_family_sentences(**a, excluded=family)),
            made,
        ),
        Use(
            "chains", datasets.chains, {"size": 3, "pairs": 4, "symbols": 7, "steps": 2}
        ),
        Use("copy_bits", datasets.copy_bits, {"size": 3, "bits": 2, "lengths": (1, 2)}),
        Use(
            "corrections",
            lambda **a: datasets.corrections(**a).sources,
            {"size": 5, "errors": 0.2, "seed": 0},
        ),
        Use("melodies", datasets.melodies, {"count": 3, "seed": 0}),
        Use("analogies", lambda **a: datasets.analogies(**a).sentences, {"words": 50}),
        Use(
            "read_image",
            datasets.read_image,
            {"file": "no file", "size": (2, 2), "channels": 3, "resize": "crop"},
        ),
        Use(
            "homonyms",
            lambda **a: len(datasets.homonyms(**a).held_out),
            {"language": "fr", "neutral": 1, "seed": 0},
        ),
        Use("Homonyms.sample", datasets.homonyms().sample, {"count": 3, "seed": 0}),
        Use(
            "Homonyms.pairs",
            datasets.homonyms().pairs,
            {"count": 3, "held_out": True, "neutral": 1, "seed": 0},
        ),
        Use("role_sentences", datasets.role_sentences, {"count": 3, "seed": 0}),
        Use("aligned_sentences", datasets.aligned_sentences, {"count": 3, "seed": 0}),
        Use(
            "last_words",
            lambda **a: datasets.last_words(**a).chance,
            {"count": 16, "players": 3, "language": "fr", "seed": 0},
        ),
        Use(
            "AutoregressiveProcess",
            lambda **a: datasets.AutoregressiveProcess(**a).optimum,
            {"coefficients": [0.5, 0.1], "noise": 2.0},
        ),
        Use(
            "AutoregressiveProcess.sample",
            datasets.AutoregressiveProcess([0.5]).sample,
            {"length": 3, "seed": 0},
        ),
        Use(
            "AutoregressiveProcess.forecast",
            datasets.AutoregressiveProcess([0.5]).forecast,
            {"x": [[1.0, 2.0]], "horizon": 2},
        ),
        Use(
            "AutoregressiveProcess.least_errors",
            datasets.AutoregressiveProcess([0.5]).least_errors,
            {"horizon": 2},
        ),
        Use(
            "named_sentences",
            datasets.named_sentences,
            {"count": 3, "new_names": True, "family_names": 5, "seed": 0},
        ),
        Use(
            "bleu_by_length",
            training.bleu_by_length,
            {"sources": ["a b"], "hypotheses": ["a b"], "references": ["a b"]}
            | {"bins": 1, "tokenize": "13a"},
        ),
        Use(
            "bootstrap_bleu",
            training.bootstrap_bleu,
            {"hypotheses": ["a b"], "references": ["a b"], "samples": 3, "seed": 0}
            | {"tokenize": "13a"},
        ),
        Use(
            "unseen_names",
            training.unseen_names,
            {"sources": ["A"], "targets": ["A"], "known": ["b"]},
        ),
        Use(
            "name_scores",
            training.name_scores,
            {"hypotheses": ["A"], "names": [["A"]], "unknown": "<unk>"},
        ),
    ]
