"""Models of texts: those with labels, and those that start from another one.

`--preset` names a folder of Hugging Face whose weights and tokenizer fine-tuning starts
from, and `--base` the run of a language model. Of both `--lora` trains an adapter, in a
file of its own, which `--adapter` puts on the model that it started from again.
"""

import math
import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import kerasseq
from kerasseq.cli import options, runs, schedule
from kerasseq.cli.commands import Option
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.errors import UsageError, about, refuse
from kerasseq.cli.run import Run
from kerasseq.core import checks
from kerasseq.core.files import read_json
from kerasseq.text.tokenizers.tokenizer import Tokenizer

ADAPTER = "adapter.safetensors"  # in the folder of a run
MODES = ("nf4", "int8", "int4")
OF_BASE = ("units", "num_layers", "num_heads", "position", "dropout")
OF_BASE += ("tokenizer", "vocabulary_size", "chat")
FASTER = 5  # times the rate of training all weights
_BASE = "train the model of a run of language-model further"
_LORA = "train an adapter of this rank of all dense layers, and nothing else"
OPTIONS = (
    Option("--lora RANK", "model", options.integer(), _LORA),
    Option("--quantize MODE", "model", MODES, "of the kernels under an adapter"),
)
BASE = Option("--base RUN", "model", str, _BASE)
# The kinds of folders, which stand in modules that load Keras; a test compares.
KINDS = {
    "bert": (
        *("bert", "roberta", "xlm-roberta", "camembert", "deberta", "deberta-v2"),
        "BertBackbone",
    ),
    "gpt": (
        *("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma"),
        *("mixtral", "qwen3_moe"),
        *("GPT2Backbone", "LlamaBackbone", "Llama3Backbone"),
    ),
}
MODELS = tuple(KINDS)
CONFIG = "config.json"
OF_PRESET = ("units", "num_layers", "num_heads", "tokenizer", "vocabulary_size")
LEARNING_RATE, EPOCHS = 5e-5, 3.0  # of fine-tuning, if they are not given
TOKENIZERS = {  # by name; whether the vocabulary size is an argument
    "character": ("CharacterTokenizer", False),
    "word": ("WordTokenizer", True),
    "bpe": ("BytePairTokenizer", True),
    "wordpiece": ("WordPieceTokenizer", True),
    "unigram": ("UnigramTokenizer", True),
}
MAX_TRAINING = 5_000_000  # characters that a tokenizer with a size is trained on
SPECIAL_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")  # that a BERT needs
WARM_UP = 0.1  # of the steps
MEASURED = 1000  # longest texts, whose tokens are counted
MAX_LENGTH = 512  # tokens of a text, in a model from scratch; longer ones are cut
SHORTEST = 128  # tokens that a tagger reads at least


def with_preset(arguments: dict[str, Any]) -> dict[str, Any]:
    """Adds to the arguments that were given what their preset determines.

    Raises:
        FileNotFoundError: If there is no such folder, or it has no settings.
        UsageError: If an argument contradicts it.
        ValueError: If it holds another kind of model, or is damaged.
    """
    preset = arguments.get("preset")
    if preset is None:
        return arguments
    refuse(
        [name for name in OF_PRESET if name in arguments],
        "cannot be chosen with --preset, whose folder determines it. Leave it out",
    )
    model = kind_of(preset)
    if arguments.get("model", model) != model:
        raise UsageError(
            f"--preset {preset} holds a {model}, received --model "
            f"{arguments['model']}. Leave --model out"
        )
    rate = LEARNING_RATE * (FASTER if "lora" in arguments else 1)
    arguments = {"learning_rate": rate, "model": model, **arguments}
    if not arguments.get("steps"):
        arguments.setdefault("epochs", EPOCHS)
    return {**arguments, "preset": os.path.abspath(preset)}


def kind_of(preset: str) -> str:
    """Returns the model that a folder holds: "bert" or "gpt".

    Only the kind is read here. `from_pretrained` checks everything else.
    """
    folder, listed = pathlib.Path(preset), ", ".join(sum(KINDS.values(), ()))
    if not preset or not folder.exists():
        raise FileNotFoundError(
            f'--preset: there is no folder "{preset}". Nothing is downloaded: give a '
            "folder with config.json, weights and tokenizer on this computer"
        )
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"--preset {preset} must be a folder of Hugging Face, but has no {CONFIG}"
        )
    kind = name_in(folder)
    for model, kinds in KINDS.items():
        if kind in kinds:
            return model
    raise ValueError(
        f"--preset {preset} holds a model of the kind {kind!r}, expected one of "
        f"{listed}"
    )


def name_in(folder: pathlib.Path) -> str:
    """Returns what the settings of published weights call their kind of model.

    Args:
        folder: A folder of Hugging Face or of KerasHub.

    Raises:
        ValueError: If the settings are damaged.
    """
    settings = read_json(folder / CONFIG)
    if not isinstance(settings, dict):
        raise ValueError(f"{folder / CONFIG} is damaged: it holds no table")
    name = settings.get("model_type", settings.get("registered_name"))
    return str(name).rpartition(">")[2]  # of KerasHub: keras_hub>BertBackbone


def prepare(settings: options.Settings, texts: Sequence[str]) -> tuple[Any, Tokenizer]:
    """Returns the model of `--preset`, or None, and the tokenizer.

    Raises:
        UsageError: If the memory does not suffice for model and batch.
    """
    preset, folder = None, settings.preset
    if folder is not None:
        named = f"--preset {folder}"
        preset = load_with_tokenizer(folder, named, "tokenizer.json, and")
    tokenizer = make_tokenizer(settings, "\n".join(texts), preset)
    if preset is None:
        schedule.check_memory(settings, len(texts))
    return preset, tokenizer


def load_with_tokenizer(folder: str, named: str, such_as: str) -> Any:
    """Loads a model of published weights, with its tokenizer.

    Args:
        folder: The folder.
        named: What the message calls it.
        such_as: The files of a tokenizer, for the message.

    Raises:
        ValueError: If the folder has no tokenizer that can be read.
    """
    loading = status(f"loading {folder}")
    with loading, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kerasseq.models.from_pretrained(folder)
    if model.tokenizer is None:
        reasons = "".join(f" {warning.message}." for warning in caught)
        raise ValueError(
            f"{named} must have a tokenizer that kerasseq reads, such as {such_as} "
            f"that fits the model.{reasons}"
        )
    return model


def make_tokenizer(settings: options.Settings, text: str, preset: Any) -> Tokenizer:
    """Returns the tokenizer of the preset, or trains or loads the one that is named."""
    if preset is not None:
        return preset.tokenizer
    special = SPECIAL_TOKENS if settings.model == "bert" else ()
    if special and settings.tokenizer == "character":
        raise UsageError(
            "--tokenizer character has no special tokens, such as [CLS], which --model "
            "bert needs. Choose wordpiece, bpe, unigram or word, or another --model"
        )
    return trained_tokenizer(settings, text, special)


def trained_tokenizer(
    settings: options.Settings, text: str, special_tokens: Sequence[str] = ()
) -> Tokenizer:
    """Trains the tokenizer that is named, or loads it from a path."""
    name = settings.tokenizer
    made = tokenizer_by_name(name, settings.vocabulary_size, text, special_tokens)
    if name not in TOKENIZERS:  # a path, to resume from any folder
        settings.tokenizer = os.path.abspath(name)
    return made


def tokenizer_by_name(
    name: str, vocabulary_size: int, text: str, special_tokens: Sequence[str] = ()
) -> Tokenizer:
    """Trains a tokenizer on a text, or loads one.

    Args:
        name: A name from `TOKENIZERS`, or the path of a tokenizer.
        vocabulary_size: Maximum number of tokens, if it is trained.
        text: The training text.
        special_tokens: Tokens for a tokenizer that is trained, and has none of its own.

    Raises:
        FileNotFoundError: If `name` is neither a name nor a path.
    """
    if name not in TOKENIZERS:
        if not os.path.exists(name):
            raise FileNotFoundError(
                f'unknown tokenizer "{name}".{checks.nearest(name, TOKENIZERS)} Choose '
                f"from {', '.join(options.TOKENIZERS)}, or give a file or folder"
            )
        return kerasseq.text.load_tokenizer(name)
    if TOKENIZERS[name][1] and len(text) > MAX_TRAINING:
        note(
            f"the tokenizer is trained on the first {MAX_TRAINING:,} of the "
            f"{len(text):,} characters"
        )
        text = text[:MAX_TRAINING]
    return train_tokenizer(name, vocabulary_size, text, special_tokens)


def train_tokenizer(
    name: str, vocabulary_size: int, text: str, special_tokens: Sequence[str] = ()
) -> Tokenizer:
    """Trains a tokenizer by name on a text of any size; see `tokenizer_by_name`."""
    cls, is_sized = TOKENIZERS[name]
    arguments = (vocabulary_size,) if is_sized else ()
    special = {"special_tokens": special_tokens}
    if not special_tokens or name == "wordpiece":
        special = {}
    with status("training the tokenizer", len(text)):
        return getattr(kerasseq.text, cls)(*arguments, **special).fit(text)


def build(
    settings: options.Settings,
    head: str,
    labels: Sequence[str],
    tokenizer: Tokenizer,
    texts: Sequence[str],
    preset: Any,
) -> Any:
    """Builds a classifier or a tagger of texts: a BERT or GPT, or another model.

    That of a preset gets the adapter that the options ask for.

    Args:
        settings: Arguments of the run.
        head: "classify" or "tag".
        labels: Names of the labels.
        tokenizer: The tokenizer, if there is no preset.
        texts: The training texts, which determine how many tokens the model reads.
        preset: The model of `--preset`, or None.
    """
    set_seed(settings.seed)
    if settings.model not in MODELS:
        kinds = {"classify": "SequenceClassifier", "tag": "SequenceTagger"}
        own = {"classify": "pooling", "tag": "crf"}[head]
        return getattr(kerasseq.models, kinds[head])(
            settings.model,
            labels,
            tokenizer=tokenizer,
            units=settings.units,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
            bidirectional=settings.model != "bag",
            **({own: getattr(settings, own)} if getattr(settings, own) else {}),
        )
    choices = {"truncate": head == "classify", "dropout": settings.dropout}
    if preset is not None:
        model = preset.with_head(head, labels, **choices)
        adapt(model, settings)
        return model
    sizes = {
        "num_layers": settings.num_layers,
        "num_heads": settings.num_heads,
        "hidden_dim": settings.units,
        "max_sequence_length": max_length(tokenizer, texts, head),
    }
    if settings.model == "bert":
        model = kerasseq.models.BERT
        return model(tokenizer, head=head, labels=labels, **sizes, **choices)
    return kerasseq.models.GPT(tokenizer, **sizes).with_head(head, labels, **choices)


def max_length(tokenizer: Tokenizer, texts: Sequence[str], head: str) -> int:
    """Returns how many tokens a model has to read, with its special tokens."""
    measured = sorted(texts, key=len)[-MEASURED:]
    longest = 8 + max(len(tokenizer.encode(text)) for text in measured)
    if head == "classify":
        return min(longest, MAX_LENGTH)
    return max(2 * longest, SHORTEST)  # a longer sentence is an error


def fit(run: Run, model: Any, batches: Any, validation: Any) -> Any:
    """Compiles and trains a model with labels, and returns the history.

    Args:
        run: The run.
        model: The model.
        batches: Its batches.
        validation: Inputs and labels on which the best step is chosen, or None.
    """
    settings = run.settings
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    rising = int(WARM_UP * steps) if settings.model in MODELS else 0
    model.compile(schedule.adam(settings.learning_rate, steps, rising))
    history = run.fit(model, batches, steps, "accuracy", validation=validation)
    save(run, model)
    return history


# Runs that start from the model of another: --base, --lora, --quantize


def with_base(arguments: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Adds to the arguments that were given what their base determines.

    Args:
        arguments: The arguments that were given.
        defaults: The defaults of the task.

    Raises:
        FileNotFoundError: If there is no such run.
        UsageError: If an argument contradicts the base, or needs one.
    """
    source = next((name for name in ("base", "preset") if name in arguments), None)
    if source is None:
        known = " or ".join(f"--{n}" for n in ("base", "preset") if n in defaults)
        refuse(
            [name for name in ("lora", "quantize") if name in arguments],
            f"adapts a trained model, received none. Add {known}, or leave it out",
        )
    if "quantize" in arguments and "lora" not in arguments:
        raise UsageError(
            "--quantize rounds kernels, which then cannot be trained: add --lora 8, or "
            "leave it out"
        )
    if source == "base" and "model" in defaults:
        arguments = _with_record(arguments)
    elif source == "base":
        runs.find_model(arguments["base"])
        arguments = {**arguments, "base": os.path.abspath(arguments["base"])}
    if "lora" in arguments:
        rate = options.with_defaults(defaults, arguments)["learning_rate"]
        arguments = {"learning_rate": FASTER * rate, **arguments}
    return arguments


def _with_record(arguments):
    """Adds the kind of the model of the base, and how much it reads."""
    base = arguments["base"]
    refuse(
        [name for name in OF_BASE if name in arguments],
        "cannot be chosen with --base, whose model has its own. Leave it out",
    )
    _, record = runs.find_model(base)
    if record is None or record["task"] != "language-model":
        what = "a file" if record is None else f"a run of {record['task']}"
        raise UsageError(
            f"--base must be the folder of a run of language-model, received {base}, "
            f"{what}"
        )
    model = record["arguments"]["model"]
    if arguments.get("model", model) != model:
        raise UsageError(
            f"--base {base} has the model {model}, received --model "
            f"{arguments['model']}. Leave --model out"
        )
    length = record["arguments"]["sequence_length"]
    arguments = {"sequence_length": length, **arguments}
    return {**arguments, "model": model, "base": os.path.abspath(base)}


def load_base(settings: options.Settings) -> Any:
    """Loads the model of `--base`; None without one."""
    if settings.base is None:
        return None
    model, _ = runs.load_model(settings.base)
    length = model.context_length
    if length is not None and settings.sequence_length > length:
        raise UsageError(
            f"--sequence-length must be at most {length}, which the model of --base "
            f"reads, received {settings.sequence_length}"
        )
    return model


def adapt(model: Any, settings: options.Settings) -> None:
    """Rounds the kernels and adds the adapter, as the options say."""
    if settings.lora is None:
        return
    set_seed(settings.seed)
    with status("adding the adapter"):
        if model.active_adapter is not None:  # of a base that was adapted
            model.merge_lora()
        if settings.quantize == "nf4":
            model.quantize(settings.quantize)
        elif settings.quantize is not None:
            # Keras applies an activation to integers before an adapter could add to it.
            import keras

            linear = keras.activations.linear
            layers = [x for x in model.adaptable_layers if x.activation is linear]
            model.quantize(settings.quantize, filters=lambda layer: layer in layers)
        model.enable_lora(settings.lora, "all-linear")


def save(run: Run, model: Any) -> dict[str, Any]:
    """Writes the adapter into the folder of the run, and returns its size.

    Returns:
        Plain data for the results; empty without an adapter.
    """
    if run.settings.lora is None:
        return {}
    file = run.folder / ADAPTER
    model.save_lora_weights(file)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    size = file.stat().st_size
    run.console.info(
        f"The adapter has {trained:,} of {model.count_params():,} weights, and takes "
        f"{size / 1e3:,.0f} kB: {file}"
    )
    return {"trained_parameters": trained, "adapter_bytes": size}


def add_adapter(parser: options.Options) -> None:
    """Adds `--adapter` to the parser of a command that uses a model."""
    text = "an adapter for the model: a file, a folder of PEFT, or a run with --lora"
    options.add(parser, "--adapter", str, text, "FILE")


def load_model(folder: str, adapter: str | None) -> tuple[Any, dict[str, Any] | None]:
    """Loads a model as `runs.load_model`, with an adapter if one is named.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no adapter of this model.
    """
    file = None if adapter is None else _file(adapter)
    model, record = runs.load_model(folder)
    if file is not None:
        if not hasattr(model, "load_lora_weights"):
            raise ValueError(
                f"--adapter is for models with dense layers, received "
                f"{type(model).__name__} in {folder}"
            )
        if model.active_adapter is not None:
            note(f"the adapter of {folder} is replaced by {file}")
            model.set_adapter(None)
        with about(str(file)):
            model.load_lora_weights(file, name=str(file))
    return model, record


def _file(adapter):
    """Returns the file of an adapter, which exists."""
    path = pathlib.Path(adapter)
    if (path / runs.RUN).exists():
        path = path / ADAPTER
    if not path.exists():
        raise FileNotFoundError(
            f'--adapter: there is no file "{path}". Give that of save_lora_weights, or '
            "the folder of a run that was trained with --lora"
        )
    return path
