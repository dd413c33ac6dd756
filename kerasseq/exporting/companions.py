"""What stands beside the files of a model, for those who run them without Keras.

| file | content |
|---|---|
| `preprocessing.json` | inputs and outputs, how inputs are made, what outputs are |
| `tokenizer.json` | the tokenizer, for the package `tokenizers` |
| `labels.json` | the labels, in the order of the outputs |
"""

import json
import pathlib
from typing import Any

import keras

from kerasseq.exporting import inputs
from kerasseq.exporting.tokenizer_files import tokenizer_json

PREPROCESSING, TOKENIZER = "preprocessing.json", "tokenizer.json"
GENERATION = "generation.json"
LABELS, OWN_TOKENIZER = "labels.json", "tokenizer.kerasseq.json"
CRF = (
    "The outputs are the scores of the tags at each token, before the conditional "
    "random field. Its weights are in preprocessing.json: the tags of a sentence are "
    "the path with the largest sum of scores, transitions, start and end, which "
    "Viterbi's algorithm finds"
)
OTHER_TOKENIZER = (
    f"tokenizer.json cannot hold this tokenizer: {OWN_TOKENIZER} has it, for "
    "kerasseq.text.load_tokenizer, which loads no Keras"
)
FITTED = ("length", "season", "missing", "frequency", "columns", "shifts", "order")


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> list[str]:
    """Writes the files, and returns notes about them.

    Args:
        model: The model.
        folder: The folder.
        length: Number of steps of the inputs; None if it is free.
    """
    notes = []
    content = {**_interface(model, length), **_preprocessing(model)}
    if "crf" in content:
        notes.append(f"{CRF}.")
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is not None:
        found = tokenizer_json(tokenizer)
        if found is None:
            tokenizer.save(folder / OWN_TOKENIZER)
            notes.append(f"{OTHER_TOKENIZER}.")
        else:
            _write(folder / TOKENIZER, found)
    labels = getattr(model, "labels", None)
    if labels is not None:
        _write(folder / LABELS, labels)
    for file in sorted(folder.glob(f"*_{OWN_TOKENIZER}")):  # of source or target
        notes.append(
            f"No tokenizer.json holds one of the tokenizers: {file.name} has it, for "
            "kerasseq.text.load_tokenizer, which loads no Keras."
        )
    if not (folder / GENERATION).exists():  # it says the same of prompt and step
        _write(folder / PREPROCESSING, content)
    if length is not None:
        notes.append(_about_length(model, length))
    return notes


def _write(file, content):
    text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
    file.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")


def _about_length(model, length):
    padding = inputs.padding_of(model)
    if padding is None:
        return f"The inputs have {length:,} steps."
    return (
        f"The inputs have {length:,} steps: end shorter ones with the id {padding} of "
        "padding, and cut longer ones."
    )


def _interface(model, length):
    """Names, shapes and dtypes of inputs and outputs."""
    shapes = [
        {
            "name": each.name,
            "shape": [
                "batch",
                *("steps" if s is None else s for s in each.shape[1:]),
            ],
            "dtype": each.dtype,
        }
        for each in inputs.inputs_of(model)
    ]
    return {
        "model": type(model).__name__,
        "inputs": shapes,
        "outputs": inputs.names_of_outputs(model),
        "steps": length,
    }


def _preprocessing(model) -> dict[str, Any]:
    """How inputs are made of texts, images or series, and what the outputs are."""
    config = model.get_config()
    content: dict[str, Any] = {}
    if (padding := inputs.padding_of(model)) is not None:
        content["padding_id"] = padding
    if (most := inputs.longest(model)) is not None:
        content["max_length"] = most
    content |= _of_texts(model)
    if getattr(model, "labels", None) is not None:
        content["answer"] = _answer(model)
    if "image_size" in config:
        names = ("image_size", "channels", "value_range", "data_format", "resize")
        content["images"] = {name: config.get(name) for name in names}
    if config.get("crf"):
        content["crf"] = _crf(model)
    if "horizon" in config:
        content |= _of_series(config)
    return content


def _of_texts(model):
    """The special ids that a text stands between, and what counts as its words."""
    preprocessor = getattr(model, "preprocessor", None)
    if getattr(model, "tokenizer", None) is None or preprocessor is None:
        return {}
    content: dict[str, Any] = {"reads": "words" if preprocessor.reads_words else "text"}
    for name in ("start", "end"):
        found = getattr(preprocessor, name, None)
        if isinstance(found, int):
            content[f"{name}_id"] = found
    if getattr(model, "_arguments", {}).get("architecture") == "bag":
        content["ngrams"] = (
            "After the ids of the tokens come those of n-grams of characters, as in "
            "kerasseq.tasks.bag.ngram_ids, plus padding_id + 1"
        )
    return content


def _answer(model):
    """What the outputs are, and how the answer is read from them."""
    activation = getattr(model.task, "activation", None)
    if model.multi_label:
        reading = "each label whose probability is at least 0.5"
    else:
        reading = "the label with the largest output"
    return {
        "outputs": "probabilities" if activation else "logits",
        "activation": "sigmoid" if model.multi_label else "softmax",
        "reading": f"{reading}, at each step" if model.per_step else reading,
    }


def _crf(model):
    """The weights of the conditional random field."""
    layer = next(each for each in model.layers if hasattr(each, "transitions"))
    names = ("transitions", "start", "end")
    return {
        name: keras.ops.convert_to_numpy(getattr(layer, name)).tolist()
        for name in names
    }


def _of_series(config):
    """Scales and columns of a table, and what the outputs are."""
    names = ("horizon", "quantiles", "past", "known", "calendar", "categories")
    content = {"forecast": {name: config.get(name) for name in names}}
    fitted = config.get("fitted")
    if fitted is None:
        content["forecast"]["scaled"] = False
        return content
    scales = [
        {"series": name, "mean": mean, "deviation": deviation}
        for name, mean, deviation in fitted["scales"]
    ]
    content["forecast"] |= {name: fitted.get(name) for name in FITTED}
    content["forecast"] |= {
        "scaled": True,
        "scales": scales,
        "reading": "inputs are (value - mean) / deviation, outputs are scaled likewise",
    }
    return content
