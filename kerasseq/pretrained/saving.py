"""Models into folders that others read."""

import numpy as np

from kerasseq.core import checks
from kerasseq.pretrained import (
    conversion,
    families,
    folders,
    h5_files,
    safetensors_files,
    tokenizers,
)
from kerasseq.pretrained.layouts import every

OPTIMIZER = (  # of KerasHub's tasks, at the start: steps, and the rate of learning
    ("optimizer/vars/0", np.int32(0)),
    ("optimizer/vars/1", np.float32(5e-5)),
)
TASK = "task/"  # where the table has weights that KerasHub keeps in a second file


def save_pretrained(model, folder, format="huggingface"):
    """Write a model as a folder that others read, and `models.from_pretrained`, too.

    Others are Hugging Face's `from_pretrained` and KerasHub's `from_preset`. The folder
    has `config.json` and the weights. A tokenizer is written beside as
    `tokenizer.kerasseq.json`, which others do not read. The folder is put in its place
    when it is complete.

    Args:
        model: A `GPT` with the options of GPT-2, LLaMA, Mistral, Qwen2, Qwen3 or Gemma,
            a `BERT`, which may be a RoBERTa, a `T5`, a `T5Encoder` or a `ViT`.
        folder: Where to; there must be nothing, or an empty folder.
        format: "huggingface" or "keras_hub".

    Raises:
        FileExistsError: If there is something already.
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
    checks.one_of("format", format, families.FORMATS)
    arguments = _arguments(model)
    family = families.of_model(model, format, arguments)
    form = getattr(family, format)
    settings, sizes = form.write(arguments), family.sizes(arguments)
    rows = every(form.rows(arguments), arguments)
    tensors = conversion.tensors_of(model, rows, sizes)
    with folders.new(folder) as part:
        if format == "huggingface":
            _write_huggingface(part, form, settings, tensors)
        else:
            _write_keras_hub(part, form, settings, tensors)
        tokenizers.write(part, arguments.get("tokenizer"))


def _arguments(model):
    """What a model was made from, and what it has from its tokenizer."""
    arguments = dict(getattr(model, "_arguments", {}))
    if hasattr(model, "vocabulary_size"):
        arguments["vocabulary_size"] = model.vocabulary_size
    if hasattr(model, "target_side"):
        arguments["vocabulary_size"] = model.target_side.size
    if hasattr(getattr(model, "reader", None), "special_ids"):
        arguments["special_ids"] = model.reader.special_ids
    return arguments


def _write_huggingface(folder, form, settings, tensors):
    settings, prefix = {"model_type": form.kinds[0], **settings}, form.prefix

    def name(row):
        return row.theirs if row.theirs.startswith(form.heads) else prefix + row.theirs

    safetensors_files.write(folder, ((name(row), array) for row, array in tensors))
    folders.write_table(folder / folders.CONFIG, settings)


def _write_keras_hub(folder, form, settings, tensors):
    task = settings.pop("task", None)
    backbone = _object(form.kinds[0], settings)
    folders.write_table(folder / folders.CONFIG, backbone)
    kept = []  # a head is small

    def of_backbone():
        for row, array in tensors:
            if row.theirs.startswith(TASK):
                kept.append((row.theirs.removeprefix(TASK), array))
            else:
                yield row.theirs, array

    h5_files.write(folder, of_backbone())
    if task is not None:
        kind, options = task
        config = {"backbone": backbone, "preprocessor": None, **options}
        folders.write_table(folder / "task.json", _object(kind, config))
        h5_files.write_file(folder / "task.weights.h5", dict([*kept, *OPTIMIZER]))


def _object(kind, config):
    """An object of KerasHub as Keras writes it."""
    return {
        "module": "keras_hub.models",
        "class_name": kind,
        "config": config,
        "registered_name": f"keras_hub>{kind}",
    }
