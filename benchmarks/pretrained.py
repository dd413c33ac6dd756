"""Accuracy of `from_pretrained` and `save_pretrained`, compared with `transformers`.

Each case is a small model of `transformers` with random weights. "read": `transformers`
writes a checkpoint and `models.from_pretrained` loads it. "written":
`models.save_pretrained` writes a checkpoint and `transformers` loads it. "saved": the
Keras model is saved as `.keras` and loaded again. Figures are the largest differences
to the outputs of the original model at real positions; some rows have padding on the
right. "generated" counts the tokens of greedy generation with a cache that equal those
of `transformers` without a cache.

Needs the packages transformers and torch.
"""

import pathlib
import tempfile

import numpy as np

SIZES = {
    "vocab_size": 29,
    "hidden_size": 24,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
}
GROUPS = {**SIZES, "num_key_value_heads": 3, "max_position_embeddings": 64}
ENCODER = {**SIZES, "max_position_embeddings": 40, "num_labels": 5}
T5 = {
    "vocab_size": 29,
    "d_model": 10,
    "d_ff": 17,
    "d_kv": 3,
    "num_layers": 2,
    "num_heads": 2,
}
GPT2 = {"vocab_size": 29, "n_embd": 10, "n_layer": 2, "n_head": 2, "n_positions": 40}
WINDOW = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
HALF = 24 // 6 // 2
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5][:HALF],
    "long_factor": [2.0, 7.0][:HALF],
    "original_max_position_embeddings": 8,
    "factor": 8.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
CASES = {  # the class of transformers, its configuration
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2 base": ("GPT2Model", GPT2),
    "gpt2 base, untied": ("GPT2Model", {**GPT2, "tie_word_embeddings": False}),
    "llama": ("LlamaForCausalLM", GROUPS),
    "llama base": ("LlamaModel", GROUPS),
    "llama linear": (
        "LlamaForCausalLM",
        {**GROUPS, "rope_parameters": {"rope_type": "linear", "factor": 3.0}},
    ),
    "llama yarn": ("LlamaForCausalLM", {**GROUPS, "rope_parameters": YARN}),
    "llama dynamic": (
        "LlamaForCausalLM",
        {**GROUPS, "max_position_embeddings": 8, "rope_parameters": DYNAMIC},
    ),
    "llama longrope": ("LlamaForCausalLM", {**GROUPS, "rope_parameters": LONG}),
    "mistral": ("MistralForCausalLM", {**GROUPS, "sliding_window": 4}),
    "mistral base": ("MistralModel", {**GROUPS, "sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", GROUPS),
    "qwen2 window": ("Qwen2ForCausalLM", {**GROUPS, **WINDOW}),
    "qwen2 base": ("Qwen2Model", GROUPS),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPS, "head_dim": 6}),
    "qwen3 window": ("Qwen3ForCausalLM", {**GROUPS, **WINDOW, "head_dim": 6}),
    "qwen3 base": ("Qwen3Model", {**GROUPS, "head_dim": 6}),
    "gemma": ("GemmaForCausalLM", {**GROUPS, "head_dim": 6}),
    "gemma base": ("GemmaModel", {**GROUPS, "head_dim": 6}),
    "bert": ("BertModel", ENCODER),
    "bert pretraining": ("BertForPreTraining", ENCODER),
    "bert tokens": ("BertForMaskedLM", ENCODER),
    "bert classify": ("BertForSequenceClassification", ENCODER),
    "bert tag": ("BertForTokenClassification", ENCODER),
    "bert span": ("BertForQuestionAnswering", {**ENCODER, "num_labels": 2}),
    "bert without pooler": ("BertModel", {**ENCODER, "pooler": False}),
    "roberta": ("RobertaModel", {**ENCODER, "type_vocab_size": 1}),
    "roberta without pooler": ("RobertaModel", {**ENCODER, "pooler": False}),
    "roberta tokens": ("RobertaForMaskedLM", ENCODER),
    "roberta classify": ("RobertaForSequenceClassification", ENCODER),
    "roberta tag": ("RobertaForTokenClassification", ENCODER),
    "roberta span": ("RobertaForQuestionAnswering", {**ENCODER, "num_labels": 2}),
    "xlm-roberta tokens": ("XLMRobertaForMaskedLM", ENCODER),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5 of unequal stacks": (
        "T5ForConditionalGeneration",
        {**T5, "num_decoder_layers": 3, "feed_forward_proj": "gated-gelu"},
    ),
    "t5 1.1": (
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "t5 encoder": ("T5EncoderModel", T5),
}


DECODERS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--cases", default="", help="prefix of the names (default: all)"
    )


def run(options):
    """Returns a table of differences."""
    import torch  # before TensorFlow, or it can crash
    import transformers  # noqa: F401

    names = [name for name in CASES if name.startswith(options.cases)]
    if not names:
        expected = ", ".join(CASES)
        raise SystemExit(
            f"--cases must be a prefix of one of {expected}, received {options.cases!r}"
        )
    torch.manual_seed(0)
    table = [compare(name) for name in names]
    largest = max(v for row in table for v in row.values() if isinstance(v, float))
    return {"largest difference": f"{largest:.1e}", "table": [*map(_format, table)]}


def _format(row):
    return {k: f"{v:.1e}" if isinstance(v, float) else v for k, v in row.items()}


def compare(name):
    """Returns the row of a case."""
    import transformers

    import kerasseq

    kind, settings = CASES[name]
    is_base = kind.endswith("Model") and "LMHead" not in kind
    reference = random_model(kind, dict(settings))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        reference.save_pretrained(folder / "reference")
        model = kerasseq.models.from_pretrained(folder / "reference")
        inputs = random_inputs(reference)
        expected = reference_outputs(reference, inputs)
        kerasseq.models.save_pretrained(model, folder / "model")
        cls, options = getattr(transformers, kind), class_options(settings)
        again = cls.from_pretrained(folder / "model", **options).eval()
        model.save(folder / "model.keras")
        loaded = kerasseq.load_model(folder / "model.keras")
    found = model_outputs(model, inputs, is_base)
    return {
        "case": name,
        "read": largest_difference(found, expected),
        "written": largest_difference(reference_outputs(again, inputs), expected),
        "saved": largest_difference(model_outputs(loaded, inputs, is_base), expected),
        "generated": matching_tokens(model, reference),
    }


def class_options(settings):
    """Returns the arguments of the class that are not in its configuration."""
    return {} if settings.get("pooler", True) else {"add_pooling_layer": False}


def random_model(kind, settings):
    """Returns a model of transformers with random weights, also in the norms."""
    import torch
    import transformers

    cls = getattr(transformers, kind)
    options = class_options(settings)
    settings.pop("pooler", None)
    model = cls(cls.config_class(**settings), **options).eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            base = 1.0 if "norm" in path.lower() and path.endswith("weight") else 0.0
            base = 0.0 if kind.startswith("Gemma") else base
            weight.copy_(base + 0.2 * torch.randn_like(weight))
    return model


def random_inputs(reference):
    """Returns ids, their padding mask, and target ids for T5."""
    rng = np.random.default_rng(0)
    ids = rng.integers(3, 29, (3, 13))
    real = np.ones_like(ids)
    real[1, 9:] = 0
    if reference.config.model_type not in DECODERS:
        ids = np.where(real, ids, reference.config.pad_token_id)
    return ids, real, rng.integers(3, 29, (3, 5))


def reference_outputs(model, inputs):
    """Returns the outputs of a model of transformers as a list of arrays."""
    import torch

    ids, real, target = map(torch.tensor, inputs)
    options = {"input_ids": ids, "attention_mask": real}
    if is_pair := type(model).__name__.endswith("T5ForConditionalGeneration"):
        options["decoder_input_ids"] = target
    with torch.no_grad():
        found = model(**options)
    found = {k: v.numpy() for k, v in found.items() if torch.is_tensor(v)}
    for name in ("prediction_logits", "logits", "last_hidden_state"):
        if name in found and len(found[name].shape) == 3 and not is_pair:
            found[name] = found[name][inputs[1] > 0]
    for name in ("start_logits", "end_logits"):
        if name in found:
            found[name] = found[name][inputs[1] > 0]
    if "seq_relationship_logits" in found:
        found["seq_relationship_logits"] = found["seq_relationship_logits"][:, ::-1]
    found.pop("encoder_last_hidden_state", None)
    return [*found.values()]


def model_outputs(model, inputs, is_base):
    """Returns the outputs of a model of kerasseq, in the order of `transformers`."""
    import keras

    ids, real, target = (x.astype("int32") for x in inputs)
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype="int32"), ids.shape)
    arguments = ids
    if isinstance(model.input, dict):
        arguments = {"ids": ids, "segments": np.zeros_like(ids), "positions": positions}
        arguments = {name: arguments[name] for name in model.input}
    elif type(model).__name__ == "T5":
        arguments = [ids, target]
    elif (
        type(model).__name__ == "GPT" and is_base
    ):  # with tied embeddings it returns logits
        model = keras.Model(model.input, model.get_layer("final_norm").output)
    found = model(arguments, training=False)
    found = {"": found} if not isinstance(found, dict) else found
    found = {k: keras.ops.convert_to_numpy(v) for k, v in found.items()}
    names = (
        sorted(found, key=["", "tokens", "next", "sequence", "pooled"].index)
        if ("start" not in found)
        else ["start", "end"]
    )
    per_token = {"tokens", "sequence", "start", "end"}
    kept = []
    for name in names:
        x = found[name]
        is_row = name in per_token or (not name and x.shape[:2] == ids.shape)
        kept.append(x[real > 0] if is_row else x)
    return kept


def largest_difference(found, expected):
    """Returns the largest absolute difference between two lists of arrays."""
    assert [x.shape for x in found] == [x.shape for x in expected], (
        [x.shape for x in found],
        [x.shape for x in expected],
    )
    return float(max(np.abs(x - y).max() for x, y in zip(found, expected, strict=True)))


def matching_tokens(model, reference, length=12):
    """Counts generated tokens that equal those of transformers without a cache."""
    import torch

    if not hasattr(model, "generate") or getattr(model, "head", "tokens") is None:
        return ""
    if not hasattr(reference, "lm_head"):
        return ""
    prompts = [[5, 3, 7, 11, 4], [9, 8]]
    same = 0
    for row, prompt in zip(
        model.generate(prompts, length, temperature=0), prompts, strict=True
    ):
        expected = list(prompt)
        for _ in range(length):
            with torch.no_grad():
                logits = reference(input_ids=torch.tensor([expected])).logits[0, -1]
            expected.append(int(logits.argmax()))
        same += sum(a == b for a, b in zip(row, expected, strict=True)) - len(prompt)
    return f"{same} of {length * len(prompts)}"
