"""Folders of Hugging Face, which engines that serve models read, such as vLLM.

`models.save_pretrained` writes them, for the models that `transformers` has a class
for. That class reads the folder, if `transformers` and PyTorch are installed, and its
outputs are compared; those of images, sounds and heads with inputs of their own are
not.
"""

import pathlib

import keras
import numpy as np

from kerasseq.core import packages
from kerasseq.exporting import inputs
from kerasseq.exporting.checks import CASES, relative_difference
from kerasseq.exporting.tokenizer_files import marks_of, tokenizer_json
from kerasseq.models import GPT
from kerasseq.models.bert.bert_texts import BERTPreprocessor, special_names
from kerasseq.pretrained.checkpoints import (
    FAMILIES,
    arguments_of,
    family_of_model,
    save_pretrained,
)
from kerasseq.pretrained.checkpoints import FORMATS as FORMS
from kerasseq.pretrained.folders import CONFIG, read_table, write_table

# Our inputs, and those of the class in `transformers`.
NAMES = {
    "ids": "input_ids",
    "segments": "token_type_ids",
    "source": "input_ids",
    "target": "decoder_input_ids",
}
TOKENIZER_CONFIG = "tokenizer_config.json"


def write(model: keras.Model, folder: pathlib.Path, length: int | None) -> None:
    """Writes a model and its tokenizer into a folder, for any number of steps.

    Raises:
        TypeError: If Hugging Face has no class for the model.
        ValueError: If it has none with these options.
    """
    _refuse_hub_alone(model)
    save_pretrained(merged(model), folder)
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is not None and tokenizer_json(tokenizer) is not None:
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **_settings_of(model)}
        write_table(folder / TOKENIZER_CONFIG, config)


def _settings_of(model):
    """Returns what a tokenizer of `transformers` pads with, and where it cuts."""
    preprocessor = getattr(model, "preprocessor", None)
    if not isinstance(preprocessor, BERTPreprocessor):
        if marks_of(model) is None:
            return {}
        source, names = model.source_vocabulary, model.tokenizer.vocabulary
        return {"pad_token": names[source.padding], "eos_token": names[source.end]}
    names = special_names(preprocessor.tokenizer)
    inputs_of_text = ["input_ids", "token_type_ids", "attention_mask"]
    if preprocessor.num_segments == 1:
        inputs_of_text.remove("token_type_ids")
    tokens = {"[CLS]": "cls", "[SEP]": "sep", "[PAD]": "pad", "[MASK]": "mask"}
    return {
        **{f"{role}_token": names[token] for token, role in tokens.items()},
        "model_max_length": preprocessor.longest,
        "model_input_names": inputs_of_text,
    }


def merged(model: keras.Model) -> keras.Model:
    """Returns a model without adapter that computes the same: itself, or a copy.

    Raises:
        ValueError: If a layer under the adapter is quantized.
    """
    if getattr(model, "active_adapter", None) is None:
        return model
    config = keras.saving.serialize_keras_object(model)
    config.pop("compile_config", None)
    copy = keras.saving.deserialize_keras_object(config)
    copy.set_weights(model.get_weights())
    copy.merge_lora()
    return copy


def _refuse_hub_alone(model):
    """Raises for a model that KerasHub has a class for, and Hugging Face has none."""
    arguments = arguments_of(model)
    if type(model) not in {family.model for family in FAMILIES}:
        return  # `save_pretrained` names the classes
    for form in FORMS:
        try:
            family = family_of_model(model, form, arguments)
        except ValueError:
            continue
        if form == "huggingface":
            return
        raise ValueError(
            f"Hugging Face has no class for a model of the kind {family.name}, received"
            f" a {type(model).__name__}. models.save_pretrained(model, folder, "
            f'"{form}") writes it for {FORMS[form]}'
        )


def check(model: keras.Model, folder: pathlib.Path, length: int | None) -> float | None:
    """Returns the largest difference of an output from the model's, relative to it.

    None if the model has inputs or outputs that are not compared.
    """
    names = [each.name for each in inputs.inputs_of(model)]
    several = not isinstance(model.output, keras.KerasTensor)
    if several or not set(names) <= set(NAMES):
        return None
    transformers = packages.load("transformers", "transformers", "the check needs")
    torch = packages.load("torch", "torch", "the check needs")
    name = read_table(folder / CONFIG)["architectures"][0]
    theirs = getattr(transformers, name).from_pretrained(folder).eval()
    if hasattr(theirs.config, "rescale_every"):  # of RWKV, for float16
        theirs.config.rescale_every = 0
    # The caches of some of their recurrent models are wrong above one row.
    options = {"use_cache": False} if isinstance(model, GPT) else {}

    def run(arrays):
        given = {NAMES[n]: torch.tensor(x) for n, x in zip(names, arrays, strict=True)}
        with torch.no_grad():
            output = theirs(**{k: x.long() for k, x in given.items()}, **options)[0]
        return output.float().numpy()

    return max(_difference(model, run, *case) for case in enumerate(CASES))


def _difference(model, run, seed, case):
    """Computes the largest relative difference, for rows without padding."""
    rows, steps = case
    most = inputs.longest(model)
    steps = steps if most is None else min(steps, most)
    padding = inputs.padding_of(model)
    padding = getattr(getattr(model, "target_vocabulary", None), "padding", padding)
    arrays = inputs.examples(model, rows, steps, seed)
    for x, each in zip(arrays, inputs.inputs_of(model), strict=True):
        if each.name == "segments":
            x %= 2
        elif padding is not None:
            x[x == padding] = (padding + 1) % each.values
    expected = inputs.outputs_of(model, arrays)[0]
    return relative_difference(expected, np.asarray(run(arrays)))
