"""What names of other libraries are called here, for messages about unknown names.

Loads no Keras.
"""

from collections.abc import Iterable

from kerasseq.core import checks

# Arguments and options by the names of Keras, PyTorch, Hugging Face and scikit-learn.
# The first one that a function has is meant.
_LENGTH = ("max_sequence_length", "sequence_length", "max_characters", "max_length")
_FILE, _SAMPLER = ("file",), ("sampler=kerasseq.decoding.Beam(3)", "beam")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("vocab_size", "num_embeddings", "n_vocab", "max_tokens"), ("vocabulary_size",)
    ),
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "n_hidden", "num_units"),
        ("units", "hidden_dim"),
    ),
    "embed_dim": ("units", "hidden_dim", "key_dim=embed_dim // num_heads"),
    "hidden_dim": ("units",),
    "units": ("hidden_dim",),
    **dict.fromkeys(
        ("n_layer", "n_layers", "num_hidden_layers", "depth"), ("num_layers",)
    ),
    **dict.fromkeys(
        ("n_head", "n_heads", "nhead", "num_attention_heads"), ("num_heads",)
    ),
    **dict.fromkeys(
        ("dff", "d_ff", "ffn_dim", "dim_feedforward", "n_inner", "intermediate_size"),
        ("intermediate_dim",),
    ),
    **dict.fromkeys(
        ("max_position_embeddings", "block_size", "n_positions", "context_length"),
        _LENGTH,
    ),
    **dict.fromkeys(("seq_len", "max_len", "max_seq_len"), _LENGTH),
    **dict.fromkeys(("num_classes", "num_labels", "n_classes", "classes"), ("labels",)),
    **dict.fromkeys(("dropout_rate", "drop", "drop_rate"), ("dropout",)),
    **dict.fromkeys(
        ("lookback", "look_back", "window", "window_size", "input_length"),
        ("length",),
    ),
    **dict.fromkeys(
        ("prediction_length", "forecast_horizon", "output_length"), ("horizon",)
    ),
    **dict.fromkeys(("num_beams", "beam_width", "beam_size", "beams"), _SAMPLER),
    **dict.fromkeys(("causal", "is_causal"), ("use_causal_mask",)),
    "tokenizer": ("source_tokenizer",),
    **dict.fromkeys(("r", "lora_r"), ("rank", "lora")),
    **dict.fromkeys(("lr", "learning_rate_init"), ("learning_rate",)),
    **dict.fromkeys(("num_epochs", "num_train_epochs", "max_epochs"), ("epochs",)),
    **dict.fromkeys(
        ("csv", "input", "input_file", "path", "filename", "train", "train_file"), _FILE
    ),
    **dict.fromkeys(("dataset", "data_file", "table"), _FILE),
    "file": ("pairs", "text"),
    **dict.fromkeys(("output", "output_file", "outfile"), ("out", "run")),
    **dict.fromkeys(("target", "target_column", "y"), ("value", "label", "labels")),
    **dict.fromkeys(("x", "text_column", "texts", "column"), ("text",)),
    **dict.fromkeys(("random_state", "random_seed"), ("seed",)),
    **dict.fromkeys(("dim", "dimension", "vector_size"), ("dimensions",)),
    "negative": ("negatives",),
}

# Public names of other libraries, and what is here in their place.
NAMES: dict[str, str] = {
    "kerasseq.load": "kerasseq.load_model",
    "models.load": "kerasseq.load_model",
    "text.load": "kerasseq.text.load_tokenizer",
    "rope": "kerasseq.layers.RotaryEmbedding",
    "moe": "kerasseq.layers.MixtureOfExperts",
    **dict.fromkeys(
        ("selfattention", "multiheadedattention"), "kerasseq.layers.MultiHeadAttention"
    ),
    "causalselfattention": "kerasseq.layers.MultiHeadAttention, with "
    "use_causal_mask=True",
    "groupedqueryattention": "kerasseq.layers.MultiHeadAttention, with "
    "num_key_value_heads",
    "positionalencoding": "kerasseq.layers.SinePositionEncoding",
    "transformerblock": "kerasseq.layers.TransformerEncoder, or TransformerDecoder "
    "with a causal mask",
    **dict.fromkeys(
        ("maskedlmhead", "mlmhead", "bertformaskedlm", "bertmaskedlm"),
        "kerasseq.models.BERT",
    ),
    **dict.fromkeys(
        (
            *("bertclassifier", "berttextclassifier"),
            *("bertforsequenceclassification", "robertatextclassifier"),
        ),
        'kerasseq.models.BERT, with with_head("classify")',
    ),
    **dict.fromkeys(
        ("gpt2", "gpt2causallm", "gpt2lmheadmodel", "llama", "llamaforcausallm"),
        "kerasseq.models.GPT; kerasseq.models.from_pretrained reads a folder",
    ),
    **dict.fromkeys(
        (
            *(
                "automodel",
                "automodelforcausallm",
                "automodelforsequenceclassification",
            ),
            *("from_preset", "pipeline"),
        ),
        "kerasseq.models.from_pretrained, for a folder",
    ),
    "autotokenizer": "kerasseq.text.load_tokenizer",
    "translator": "kerasseq.models.Seq2Seq, or kerasseq.models.Transformer",
    **dict.fromkeys(
        ("loraconfig", "get_peft_model", "lora", "loralayer"),
        "a method of models, model.enable_lora(rank)",
    ),
    "bpe": "kerasseq.text.BytePairTokenizer",
    "sentencepiecetokenizer": "kerasseq.text.UnigramTokenizer",
    "plot_attention": "kerasseq.tracing.plots.plot_attention",
    "plot_gates": "kerasseq.tracing.plots.plot_gates",
    "hmm": "kerasseq.text.HiddenMarkovModel",
    "beamsampler": "kerasseq.decoding.Beam",
    "beam_search": "kerasseq.decoding.Beam",
    "greedysampler": "kerasseq.decoding.Greedy",
    "greedy_search": "kerasseq.decoding.Greedy",
    "topksampler": "kerasseq.decoding.TopK",
    "toppsampler": "kerasseq.decoding.TopP",
    **dict.fromkeys(
        ("export", "to_onnx", "export_onnx"),
        "kerasseq.exporting.export_model",
    ),
}

# Methods and attributes of other libraries, and what models have in their place.
METHODS: dict[str, str] = {
    "save_pretrained": "kerasseq.models.save_pretrained(model, folder)",
    "push_to_hub": "kerasseq.models.save_pretrained(model, folder)",
    **dict.fromkeys(
        ("predict_classes", "predict_proba", "decision_function"),
        "classify(x), with label and probabilities",
    ),
    "score": "evaluate(x, y), or report(x, y)",
    "perplexity": "evaluate(x), or surprise(text)",
    **dict.fromkeys(("add_lora", "add_adapter", "lora"), "enable_lora(rank)"),
    "merge_and_unload": "merge_lora()",
    "parameters": "weights, or count_params()",
    "state_dict": "get_weights(), or save_weights(file)",
    "load_state_dict": "set_weights(list), or load_weights(file)",
}

# The same of the word vectors of gensim.
VECTORS: dict[str, str] = {
    "wv": "the model itself, model.nearest(word)",
    "most_similar": "nearest(word), or analogy(a, b, c)",
    "get_vector": "vector(word)",
    "vectors": "matrix",
    "key_to_index": "index",
    "index_to_key": "words",
    "save_word2vec_format": "to_file(path)",
    "load_word2vec_format": "WordVectors.from_file(path)",
}


def of_argument(name: str, known: Iterable[str]) -> str | None:
    """Returns what an argument of another library is called here, if it is known.

    Examples:
        >>> of_argument("d_model", ["num_heads", "hidden_dim"])
        'hidden_dim'
    """
    known = {*known}
    meant = ARGUMENTS.get(name.lower(), ())
    return next((each for each in meant if each.partition("=")[0] in known), None)


def nearest_argument(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown argument, as `checks.nearest`.

    Examples:
        >>> nearest_argument("num_classes", ["labels", "num_layers"])
        ' Did you mean "labels"?'
        >>> nearest_argument("num_layer", ["labels", "num_layers"])
        ' Did you mean "num_layers"?'
    """
    known = [*known]
    meant = of_argument(name, known)
    return f' Did you mean "{meant}"?' if meant else checks.nearest(name, known)
