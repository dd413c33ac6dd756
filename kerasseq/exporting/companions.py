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

from kerasseq.exporting import forecast_settings, inputs
from kerasseq.exporting.tokenizer_files import tokenizer_json, with_marks
from kerasseq.models.multimodal.preprocessor import MultimodalPreprocessor
from kerasseq.models.vit import pixels
from kerasseq.speech.audio_inputs import AudioPreprocessor

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

WORDS = (
    "join the words by single spaces; the answer of a word is that at the first id "
    "with a character of the word"
)
MARKS = (
    "start_id, the ids of the text, end_id: cut the ids of a long text, so that both "
    "fit into max_length and steps; other inputs, such as segments, are 0"
)
CAPTION = (
    "a text begins with start_id; its next id is the largest output of the last step, "
    "other than never_written_ids, until end_id or max_length ids"
)
CUT = "cut a text after max_characters characters, as the training did"
PADDED = "end shorter rows with padding_id, cut the end of longer ones"


def write(
    model: keras.Model,
    folder: pathlib.Path,
    length: int | None,
    outputs: list[str] | None = None,
    batch: int | None = None,
    max_characters: int | None = None,
) -> list[str]:
    """Writes the files, and returns notes about them.

    Args:
        model: The model.
        folder: The folder.
        length: Number of steps of the inputs; None if it is free.
        outputs: Names of the outputs in the file; None for those of the model.
        batch: Number of rows of the inputs; None if it is free.
        max_characters: Characters to which texts were cut in training; None if they
            were not.
    """
    notes = []
    interface = _interface(model, length, outputs, batch)
    content = {**interface, **_preprocessing(model), **_cut(model, max_characters)}
    if "crf" in content:
        notes.append(f"{CRF}.")
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is not None:
        converted = tokenizer_json(tokenizer)
        if converted is None:
            tokenizer.save(folder / OWN_TOKENIZER)
            notes.append(f"{OTHER_TOKENIZER}.")
        else:
            _write(folder / TOKENIZER, with_marks(converted, model))
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
    if padding is None or not inputs.has_ids(model):
        kind = "steps" if inputs.samples_of_step(model) == 1 else "samples"
        return f"The inputs have {length:,} {kind}."
    return (
        f"The inputs have {length:,} steps: end shorter ones with the id {padding} of "
        "padding, and cut longer ones."
    )


def _interface(model, length, outputs, batch):
    """Names, shapes and dtypes of inputs and outputs."""
    shapes = [
        {
            "name": each.name,
            "shape": [
                batch or "batch",
                *("steps" if s is None else s for s in each.shape[1:]),
            ],
            "dtype": each.dtype,
        }
        for each in inputs.inputs_of(model)
    ]
    return {
        "model": type(model).__name__,
        "inputs": shapes,
        "outputs": outputs or inputs.names_of_outputs(model),
        "steps": length,
    }


def _preprocessing(model) -> dict[str, Any]:
    """Describes how inputs are made, of texts, images or series, and the outputs."""
    config = model.get_config()
    content: dict[str, Any] = {}
    padding = inputs.padding_of(model)
    if padding is not None and inputs.has_ids(model):
        content["padding_id"] = padding
    if (most := inputs.longest(model)) is not None:
        content["max_length"] = most
    content |= _of_texts(model)
    if getattr(model, "labels", None) is not None:
        content["answer"] = _answer(model, bool(config.get("crf")))
    if "image_size" in config:
        content["images"] = _of_images(config)
    if config.get("crf"):
        content["crf"] = _crf(model)
    if "horizon" in config:
        content["forecast"] = forecast_settings.settings_of(config)
    return content


def _of_images(config):
    """Returns the size of images, and the values of black and white."""
    names = ("image_size", "channels", "data_format", "resize")
    black_and_white = config.get("value_range") or pixels.FRACTIONS
    content = {name: config.get(name) for name in names}
    return {**content, "value_range": list(black_and_white)}


def _of_texts(model):
    """Lists the special ids that a text stands between, and what its words are."""
    preprocessor = getattr(model, "preprocessor", None)
    if getattr(model, "tokenizer", None) is None or preprocessor is None:
        return {}
    content: dict[str, Any] = {"reads": "words" if preprocessor.reads_words else "text"}
    for name in ("start", "end"):
        token_id = getattr(preprocessor, name, None)
        if isinstance(token_id, int):
            content[f"{name}_id"] = token_id
    if isinstance(preprocessor, MultimodalPreprocessor):
        if model.get_config()["head"] != "caption":
            return content
        content["never_written_ids"] = list(preprocessor.never_written)
        return {**content, "row": [CAPTION, PADDED]}
    if isinstance(preprocessor, AudioPreprocessor):
        return {"audio": _of_sounds(preprocessor)}
    row = [WORDS] * preprocessor.reads_words
    row += [MARKS] * ("start_id" in content and "end_id" in content)
    content["row"] = [*row, PADDED]
    if getattr(model, "_arguments", {}).get("architecture") == "bag":
        content["ngrams"] = (
            "After the ids of the tokens come those of n-grams of characters, as in "
            "kerasseq.tasks.bag.ngram_ids, plus padding_id + 1"
        )
    return content


def _cut(model, max_characters):
    """Returns the characters of a text, which come before its ids."""
    row = _of_texts(model).get("row")
    if max_characters is None or row is None:
        return {}
    return {"max_characters": max_characters, "row": [CUT, *row]}


def _of_sounds(preprocessor):
    """Returns how a sound is read, and what the outputs of a recognizer are."""
    content = {
        "sampling_rate": preprocessor.sampling_rate,
        "samples": "from -1 to 1, with zeros at the end of shorter rows; lengths has "
        "the samples of each row",
        "samples_of_step": preprocessor.stride * preprocessor.factor,
    }
    if type(preprocessor) is not AudioPreprocessor:  # a decoder writes the text
        return content
    return {
        **content,
        "blank_id": preprocessor.tokenizer.vocabulary_size,
        "reading": "the largest output of each step up to the end of the sound, "
        "repetitions merged, without blank_id",
    }


def _answer(model, has_crf):
    """Returns what the outputs are, and how the answer is read from them."""
    activation = getattr(model.task, "activation", None)
    if model.multi_label:
        reading = "each label whose probability is at least 0.5"
    else:
        reading = "the label with the largest output"
    if has_crf:
        reading = "the labels of the best path, by Viterbi's algorithm, see crf"
    elif model.per_step:
        reading = f"{reading}, at each step"
    return {
        "outputs": "probabilities" if activation else "logits",
        "activation": "sigmoid" if model.multi_label else "softmax",
        "reading": reading,
    }


def _crf(model):
    """Returns the weights of the conditional random field."""
    layer = next(each for each in model.layers if hasattr(each, "transitions"))
    names = ("transitions", "start", "end")
    return {
        name: keras.ops.convert_to_numpy(getattr(layer, name)).tolist()
        for name in names
    }
