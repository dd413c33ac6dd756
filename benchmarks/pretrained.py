"""Random weights of each family of `models.from_pretrained`, against `transformers`.

Each case is a small model of `transformers` with random weights. It is written as a
folder of Hugging Face and read by `models.from_pretrained`; written by
`models.save_pretrained` and read by `transformers`; and saved as `.keras` and loaded.
Figures are the largest difference of an output at a real position, some rows of which
are padded on the right; "generated" counts tokens of greedy generation with a cache
that are the same as those of `transformers` without one.

Needs the packages transformers and torch, beside the backend.
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
CASES = {  # the class of transformers without its end, its settings
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
    """Which cases."""
    parser.add_argument("--cases", default="", help="those whose names begin so")


def run(options):
    """Compare, and give a table."""
    import torch  # before TensorFlow, or it can crash
    import transformers  # noqa: F401

    names = [name for name in CASES if name.startswith(options.cases)]
    if not names:
        raise SystemExit(f"--cases {options.cases}: there are {', '.join(CASES)}")
    torch.manual_seed(0)
    table = [compare(name) for name in names]
    largest = max(v for row in table for v in row.values() if isinstance(v, float))
    return {"largest difference": f"{largest:.1e}", "table": [*map(_as_text, table)]}


def _as_text(row):
    return {k: f"{v:.1e}" if isinstance(v, float) else v for k, v in row.items()}


def compare(name):
    """A row of the table."""
    import transformers

    import kerasseq

    kind, settings = CASES[name]
    is_base = kind.endswith("Model") and "LMHead" not in kind
    theirs = made(kind, dict(settings))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        theirs.save_pretrained(folder / "theirs")
        ours = kerasseq.models.from_pretrained(folder / "theirs")
        inputs = inputs_of(theirs)
        wanted = outputs_of_theirs(theirs, inputs)
        kerasseq.models.save_pretrained(ours, folder / "ours")
        cls, options = getattr(transformers, kind), options_of(settings)
        again = cls.from_pretrained(folder / "ours", **options).eval()
        ours.save(folder / "model.keras")
        loaded = kerasseq.load_model(folder / "model.keras")
    found = outputs_of_ours(ours, inputs, is_base)
    return {
        "case": name,
        "read": largest(found, wanted),
        "written": largest(outputs_of_theirs(again, inputs), wanted),
        "saved": largest(outputs_of_ours(loaded, inputs, is_base), wanted),
        "generated": generated(ours, theirs),
    }


def options_of(settings):
    """Options of the class beside its settings."""
    return {} if settings.get("pooler", True) else {"add_pooling_layer": False}


def made(kind, settings):
    """A model of transformers with random weights, those of norms included."""
    import torch
    import transformers

    cls = getattr(transformers, kind)
    options = options_of(settings)
    settings.pop("pooler", None)
    model = cls(cls.config_class(**settings), **options).eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            base = 1.0 if "norm" in path.lower() and path.endswith("weight") else 0.0
            base = 0.0 if kind.startswith("Gemma") else base
            weight.copy_(base + 0.2 * torch.randn_like(weight))
    return model


def inputs_of(theirs):
    """Ids and where they are real; with a target for T5."""
    rng = np.random.default_rng(0)
    ids = rng.integers(3, 29, (3, 13))
    real = np.ones_like(ids)
    real[1, 9:] = 0
    if theirs.config.model_type not in DECODERS:
        ids = np.where(real, ids, theirs.config.pad_token_id)
    return ids, real, rng.integers(3, 29, (3, 5))


def outputs_of_theirs(model, inputs):
    """All outputs, by our names."""
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


def outputs_of_ours(model, inputs, is_base):
    """All outputs, in the order of theirs."""
    import keras

    ids, real, target = (x.astype("int32") for x in inputs)
    places = np.broadcast_to(np.arange(ids.shape[1], dtype="int32"), ids.shape)
    given = ids
    if isinstance(model.input, dict):
        given = {"ids": ids, "segments": np.zeros_like(ids), "positions": places}
        given = {name: given[name] for name in model.input}
    elif type(model).__name__ == "T5":
        given = [ids, target]
    elif type(model).__name__ == "GPT" and is_base:  # a tied table gives logits
        model = keras.Model(model.input, model.get_layer("final_norm").output)
    found = model(given, training=False)
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


def largest(found, wanted):
    """The largest difference, where outputs are of size 1 or so."""
    assert [x.shape for x in found] == [x.shape for x in wanted], (
        [x.shape for x in found],
        [x.shape for x in wanted],
    )
    return float(max(np.abs(x - y).max() for x, y in zip(found, wanted, strict=True)))


def generated(ours, theirs, length=12):
    """How many tokens of two rows are those of transformers without a cache."""
    import torch

    if not hasattr(ours, "generate") or getattr(ours, "head", "tokens") is None:
        return ""
    if not hasattr(theirs, "lm_head"):
        return ""
    prompts = [[5, 3, 7, 11, 4], [9, 8]]
    same = 0
    for row, prompt in zip(
        ours.generate(prompts, length, temperature=0), prompts, strict=True
    ):
        wanted = list(prompt)
        for _ in range(length):
            with torch.no_grad():
                logits = theirs(input_ids=torch.tensor([wanted])).logits[0, -1]
            wanted.append(int(logits.argmax()))
        same += sum(int(a == b) for a, b in zip(row, wanted, strict=True)) - len(prompt)
    return f"{same} of {length * len(prompts)}"
