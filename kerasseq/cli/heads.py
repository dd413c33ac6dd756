"""Models of texts with labels: built, or fine-tuned from a folder of Hugging Face.

`--preset` names a folder whose weights and tokenizer fine-tuning starts from.
"""

import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import kerasseq
from kerasseq.cli import adapting, options, schedule, tokenize
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError
from kerasseq.core.files import read_json
from kerasseq.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from kerasseq.cli.run import Run

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
    for name in OF_PRESET:
        if name in arguments:
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be chosen with --preset, whose "
                "folder determines it. Leave it out"
            )
    model = kind_of(preset)
    if arguments.get("model", model) != model:
        raise UsageError(
            f"--preset {preset} holds a {model}, received --model "
            f"{arguments['model']}. Leave --model out"
        )
    rate = LEARNING_RATE * (adapting.FASTER if "lora" in arguments else 1)
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
    settings = read_json(folder / CONFIG)
    if not isinstance(settings, dict):
        raise ValueError(f"{folder / CONFIG} is damaged: it holds no table")
    name = settings.get("model_type", settings.get("registered_name"))
    kind = str(name).rpartition(">")[2]  # of KerasHub: keras_hub>BertBackbone
    for model, kinds in KINDS.items():
        if kind in kinds:
            return model
    raise ValueError(
        f"--preset {preset} holds a model of the kind {kind!r}, expected one of "
        f"{listed}"
    )


def prepare(settings: options.Settings, texts: Sequence[str]) -> tuple[Any, Tokenizer]:
    """Returns the model of `--preset`, or None, and the tokenizer.

    Raises:
        UsageError: If the memory does not suffice for model and batch.
    """
    preset = load_preset(settings)
    tokenizer = make_tokenizer(settings, "\n".join(texts), preset)
    if preset is None:
        schedule.check_memory(settings, len(texts))
    return preset, tokenizer


def load_preset(settings: options.Settings) -> Any:
    """Loads the model of `--preset`; None without one.

    Raises:
        ValueError: If the folder has no tokenizer that can be read.
    """
    if settings.preset is None:
        return None
    loading = status(f"loading {settings.preset}")
    with loading, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kerasseq.models.from_pretrained(settings.preset)
    if model.tokenizer is None:
        reasons = "".join(f" {warning.message}." for warning in caught)
        raise ValueError(
            f"--preset {settings.preset} must have a tokenizer that kerasseq reads, "
            f"such as tokenizer.json, and that fits the model.{reasons}"
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
    made = tokenize.make(name, settings.vocabulary_size, text, special_tokens)
    if name not in tokenize.CLASSES:  # a path, to resume from any folder
        settings.tokenizer = os.path.abspath(name)
    return made


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
        adapting.adapt(model, settings)
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


def fit(run: "Run", model: Any, batches: Any, validation: Any) -> Any:
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
    adapting.save(run, model)
    return history
