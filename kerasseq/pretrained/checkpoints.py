"""`from_pretrained` and `save_pretrained`."""

import pathlib

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.checks import nearest
from kerasseq.core.types import FilePath
from kerasseq.pretrained import conversion, folders, tokenizers, weight_files
from kerasseq.pretrained.bart import BART, MBART
from kerasseq.pretrained.bert import BERT, ROBERTA
from kerasseq.pretrained.deberta import DEBERTA, DEBERTA_V2
from kerasseq.pretrained.experts import MIXTRAL, QWEN3_MOE
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    architecture,
    layers_mismatch,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.gpt2 import GPT2
from kerasseq.pretrained.llama import GEMMA, LLAMA, MISTRAL, QWEN2, QWEN3
from kerasseq.pretrained.mamba import MAMBA
from kerasseq.pretrained.rows import expand_layers
from kerasseq.pretrained.rwkv import RWKV4
from kerasseq.pretrained.rwkv7 import RWKV7
from kerasseq.pretrained.switch import SWITCH
from kerasseq.pretrained.t5 import T5, T5_ENCODER
from kerasseq.pretrained.vit import VIT
from kerasseq.pretrained.whisper import WHISPER
from kerasseq.pretrained.xlstm import XLSTM

FAMILIES = (
    *(GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, MIXTRAL, QWEN3_MOE),
    *(MAMBA, RWKV4, RWKV7, XLSTM),
    *(BERT, ROBERTA, T5_ENCODER, T5, SWITCH, VIT, WHISPER, BART, MBART),
    *(DEBERTA, DEBERTA_V2),
)
FORMATS = {"huggingface": "Hugging Face", "keras_hub": "KerasHub"}
TASK = "task/"  # prefix of the tensors that KerasHub saves in task.weights.h5
OPTIMIZER = (  # in task.weights.h5 of KerasHub: iterations and learning rate
    ("optimizer/vars/0", np.int32(0)),
    ("optimizer/vars/1", np.float32(5e-5)),
)


def from_pretrained(folder: FilePath) -> keras.Model:
    """Loads a model from a folder of Hugging Face or KerasHub.

    The folder is on this computer; its `config.json` says what it is. Nothing is
    downloaded, and nothing that the folder names is executed: only numbers and known
    words are read from its settings, and the weights from `model.safetensors` or
    `model.weights.h5`, or from several files with an index. All of it is checked
    before the model is built.

    | folder | kinds | model |
    |---|---|---|
    | Hugging Face | gpt2, llama, mistral, qwen2, qwen3, gemma | `GPT`; with \
`head=None` for a base model without weights for logits |
    | | mixtral, qwen3_moe | `GPT` with `feed_forward=MixtureOfExperts(…)`, or a list |
    | | mamba, rwkv, xlstm | `Mamba`, `RWKV`, `XLSTM` |
    | | bert | `BERT` with the head in the file: "pretraining", "tokens", \
"classify", "tag", "span", None, or "sequence" without a pooler |
    | | roberta, xlm-roberta, camembert | `BERT` with `pair_separators=2` and such a \
head |
    | | deberta, deberta-v2 | `BERT` with `position=DisentangledPosition(…)` and the \
head in the file: "tokens", "tag", "span" or "sequence" |
    | | t5 | `T5` with `published_ids=True`; a `T5Encoder` if config.json names \
T5EncoderModel |
    | | switch_transformers | such a `T5` with `MixtureOfExperts(…, top_k=1)` in some \
blocks; no token is dropped, whatever `expert_capacity` |
    | | bart, mbart | `BART`, with the ids of decoding in `generation_config.json` |
    | | vit | `ViT`, without classifier if the file has none |
    | | whisper | `Whisper`, with the settings of `generation_config.json` |
    | KerasHub | GPT2Backbone, LlamaBackbone, Llama3Backbone, BertBackbone, \
T5Backbone, ViTBackbone, WhisperBackbone | the same |
    | | RWKV7Backbone | `RWKV` with `version=7` |
    | | BertTextClassifier, ViTImageClassifier | with their classifier |

    Other heads, such as that of GPT2ForSequenceClassification, and the pooler of a ViT
    are not loaded; a warning names their tensors. Images for the ViT have values
    from 0 to 1. The model gets the tokenizer of the folder if
    `kerasseq.text.load_tokenizer` can read it and it has as many ids as the model, or
    is a `HuggingFaceTokenizer` or `RWKVTokenizer` with fewer; otherwise the model takes
    ids. A BERT without a tokenizer uses the special ids of the published files, [UNK]
    100 to [MASK] 103, if it has that many ids.

    Args:
        folder: Path of the folder.

    Returns:
        The model.

    Raises:
        FileNotFoundError: If the folder or one of its files is missing.
        ImportError: If the package safetensors is needed and not installed.
        ValueError: If the folder is damaged, its kind or settings are not supported,
            or its tensors do not match its settings.

    Examples:
        >>> import tempfile, kerasseq
        >>> model = kerasseq.models.ViT(3, image_size=4, patch_size=2, hidden_dim=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kerasseq.models.save_pretrained(model, folder)
        ...     same = kerasseq.models.from_pretrained(folder)
        >>> x = np.ones((1, 4, 4, 3))
        >>> bool(keras.ops.all(same(x) == model(x)))
        True
    """
    folder = folders.existing_folder(folder)
    source, kind, settings = folders.read_config(folder)
    family = family_of_folder(folder, source, kind, settings)
    form = getattr(family, source)
    family.check(folder)
    if source == "huggingface":
        tensors = weight_files.read_safetensors(folder)
    else:
        tensors = _read_preset(folder)
    tensors = conversion.current_names(tensors, form)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    arguments = form.read(settings, shapes)
    pairs = conversion.match(family, form, arguments, tensors, folder)
    sizes = family.sizes(arguments)
    complete = family.complete or tokenizers.with_tokenizer
    arguments = complete(folder, source, arguments)
    try:
        model = family.model(**arguments)
    except ValueError as error:
        raise ValueError(
            f"{folder} holds a model that kerasseq cannot build: {error}"
        ) from error
    conversion.assign(model, pairs, sizes)
    return model


def _read_preset(folder):
    """Returns the tensors of a KerasHub preset, with those of its task as `task/…`."""
    tensors = weight_files.read_h5(folder)
    task = folder / "task.weights.h5"
    for tensor in weight_files.read_h5_file(task) if task.exists() else ():
        tensors[TASK + tensor.name] = tensor
    return tensors


def family_of_folder(
    folder: pathlib.Path, form: str, kind: str, settings: Settings
) -> Family:
    """Returns the family of a folder.

    Args:
        folder: The folder, for messages.
        form: One of `FORMATS`.
        kind: The model type or class of the folder.
        settings: Its `Settings`.

    Raises:
        ValueError: If there is no such family.
    """
    known, name = [], architecture(settings)
    for family in FAMILIES:
        format = getattr(family, form)
        if format is None:
            continue
        if kind in format.kinds and name in (format.architectures or (name,)):
            return family
        known += [kind for kind in format.kinds if kind not in known]
    raise ValueError(
        f"{folder} holds a model of the kind {kind!r} of {FORMATS[form]}; kerasseq "
        f"reads {', '.join(known)}.{nearest(kind, known)}"
    )


def save_pretrained(
    model: keras.Model, folder: FilePath, format: str = "huggingface"
) -> None:
    """Saves a model as a folder of Hugging Face or KerasHub.

    Hugging Face's `from_pretrained`, KerasHub's `from_preset` and
    `kerasseq.models.from_pretrained` read it. The folder has `config.json` and the
    weights. The tokenizer is saved as `tokenizer.kerasseq.json`, which only kerasseq
    reads; an `RWKVTokenizer` with format="keras_hub" also for KerasHub. The folder
    appears when it is complete.

    Args:
        model: A `GPT` with the options of GPT-2, LLaMA, Mistral, Qwen2, Qwen3, Gemma,
            Mixtral or Qwen3-MoE, a `Mamba`, an `RWKV`, an `XLSTM` without sLSTM blocks,
            a `BERT`, which may be a RoBERTa or a DeBERTa, a `T5`, which may be a Switch
            Transformer, a `T5Encoder`, a `BART`, a `ViT`, or a `Whisper` of sounds at
            16,000 samples a second.
        folder: Path of the folder, which must not exist or be empty.
        format: "huggingface" or "keras_hub".

    Raises:
        FileExistsError: If the folder exists and is not empty.
        TypeError: If the model is of another class.
        ValueError: If it has options or weights that such folders cannot hold.

    Examples:
        >>> import pathlib, tempfile, kerasseq
        >>> model = kerasseq.models.BERT(vocabulary_size=7, num_layers=1, hidden_dim=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_pretrained(model, folder)
        ...     sorted(file.name for file in pathlib.Path(folder).iterdir())
        ['config.json', 'model.safetensors']
    """
    checks.one_of("format", format, FORMATS)
    arguments = arguments_of(model)
    family = family_of_model(model, format, arguments)
    form = getattr(family, format)
    settings, sizes = form.write(arguments), family.sizes(arguments)
    rows = expand_layers(form.rows(arguments), arguments)
    tensors = conversion.to_tensors(model, rows, sizes)
    with folders.new_folder(folder) as part:
        if format == "huggingface":
            _write_huggingface(part, form, settings, tensors)
        else:
            _write_keras_hub(part, form, settings, tensors)
        tokenizers.write(part, arguments.get("tokenizer"), format)
        family.write_files(part, format, arguments)


def arguments_of(model: keras.Model) -> Arguments:
    """Returns the arguments of a model, with those that its tokenizer determined."""
    arguments = dict(getattr(model, "_arguments", {}))
    for name in ("vocabulary_size", "generation"):
        if hasattr(model, name):
            arguments[name] = getattr(model, name)
    if hasattr(model, "target_vocabulary"):
        arguments["vocabulary_size"] = model.target_vocabulary.size
    if hasattr(getattr(model, "preprocessor", None), "special_ids"):
        arguments["special_ids"] = model.preprocessor.special_ids
    return arguments


def family_of_model(model: keras.Model, form: str, arguments: Arguments) -> Family:
    """Returns the family of a model.

    Args:
        model: The model.
        form: One of `FORMATS`.
        arguments: Its arguments.

    Raises:
        TypeError: If no family has its class.
        ValueError: If no family has its options.
    """
    name = type(model).__name__
    known = [family for family in FAMILIES if family.model is type(model)]
    if not known:
        classes = dict.fromkeys(family.model.__name__ for family in FAMILIES)
        inner = "; pass its language_model()" * hasattr(model, "language_model")
        raise TypeError(
            f"model must be one of {', '.join(classes)}, received {name}{inner}"
        )
    reasons = [
        (
            family,
            layers_mismatch(arguments, family.with_layers)
            or family.mismatch(arguments),
        )
        for family in known
    ]
    for family, reason in reasons:
        if reason is None and getattr(family, form) is None:
            other = next(one for one in FORMATS if getattr(family, one) is not None)
            raise ValueError(
                f"a model of the kind {family.name} can be written in the form "
                f'"{other}", received format="{form}". Pass format="{other}"'
            )
        if reason is None:
            return family
    raise ValueError(
        f"this {name} cannot be exported to any supported format: "
        + "; ".join(f"for {family.name} it has {reason}" for family, reason in reasons)
    )


def _write_huggingface(folder, form, settings, tensors):
    def name(row):
        is_head = row.tensor.startswith(form.heads)
        return row.tensor if is_head else form.prefix + row.tensor

    named = ((name(row), array) for row, array in tensors)
    weight_files.write_safetensors(folder, named)
    settings = {"model_type": form.kinds[0], **settings}
    folders.write_table(folder / folders.CONFIG, settings)


def _write_keras_hub(folder, form, settings, tensors):
    task = settings.pop("task", None)
    backbone = _hub_object(form.kinds[0], settings)
    folders.write_table(folder / folders.CONFIG, backbone)
    head = []  # small, so it is kept in memory

    def of_backbone():
        for row, array in tensors:
            if row.tensor.startswith(TASK):
                head.append((row.tensor.removeprefix(TASK), array))
            else:
                yield row.tensor, array

    weight_files.write_h5(folder, of_backbone())
    if task is not None:
        kind, options = task
        config = {"backbone": backbone, "preprocessor": None, **options}
        folders.write_table(folder / "task.json", _hub_object(kind, config))
        weights = dict([*head, *OPTIMIZER])
        weight_files.write_h5_file(folder / "task.weights.h5", weights)


def _hub_object(kind, config):
    """Returns an object of KerasHub as Keras serializes it."""
    return {
        "module": "keras_hub.models",
        "class_name": kind,
        "config": config,
        "registered_name": f"keras_hub>{kind}",
    }
