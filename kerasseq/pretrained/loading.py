"""Models from the folders of others."""

from kerasseq.pretrained import (
    conversion,
    families,
    folders,
    h5_files,
    safetensors_files,
    tokenizers,
)


def from_pretrained(folder):
    """A model with the weights of a folder of Hugging Face or KerasHub.

    The folder is on this computer; its `config.json` says what it is. Nothing is
    downloaded, and nothing that the folder names is run: of its settings numbers and
    known words are read, of its weights `model.safetensors` or `model.weights.h5`, or
    several files with an index. All is checked before a model is built.

    | folder | kinds | becomes |
    |---|---|---|
    | Hugging Face | gpt2, llama, mistral, qwen2, qwen3, gemma | `GPT`; with \
`head=None` if the file is a base model without the table of the logits |
    | | bert | `BERT` with the head that the file holds: "pretraining", "tokens", \
"classify", "tag", "span", None, or "sequence" without a pooler |
    | | roberta, xlm-roberta, camembert | `BERT` with `pair_separators=2` and such a \
head |
    | | t5 | `T5` with `published_ids=True`; a `T5Encoder` if config.json names \
T5EncoderModel |
    | | vit | `ViT`, without classifier where there is none |
    | KerasHub | GPT2Backbone, LlamaBackbone, Llama3Backbone, BertBackbone, \
T5Backbone, ViTBackbone | the same |
    | | BertTextClassifier, ViTImageClassifier | with their classifier |

    Other heads are left out, and the pooler of a ViT, whose images have values from 0
    to 1 here. A tokenizer that `kerasseq.text.load_tokenizer` reads goes into the
    model, if it has as many ids as the model; one that it does not is left out, and the
    model takes ids. A BERT without one takes its special ids
    to be those of the published files, [UNK] 100 to [MASK] 103, if it has so many.

    Args:
        folder: The folder.

    Returns:
        The model.

    Raises:
        FileNotFoundError: If the folder or a file of it is missing.
        ImportError: If the package safetensors is needed and missing.
        ValueError: If the folder is damaged, of a kind or with settings that are not
            known here, or if its tensors are not those that its settings ask for.

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
    folder = folders.existing(folder)
    source, kind, settings = folders.settings(folder)
    family = families.of_folder(folder, source, kind, settings)
    form = getattr(family, source)
    family.check(folder)
    if source == "huggingface":
        tensors = safetensors_files.read(folder)
    else:
        tensors = _of_preset(folder)
    tensors = conversion.named(tensors, form)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    arguments = form.read(settings, shapes)
    pairs = conversion.matched(family, form, arguments, tensors, folder)
    sizes = family.sizes(arguments)
    arguments = tokenizers.added(folder, source, family, arguments)
    try:
        model = family.model(**arguments)
    except ValueError as error:
        raise ValueError(
            f"{folder} holds a model that kerasseq does not build: {error}"
        ) from error
    conversion.assign(model, pairs, sizes)
    return model


def _of_preset(folder):
    """The tensors of a preset, with those of its task below `task/`."""
    tensors = h5_files.read(folder)
    task = folder / "task.weights.h5"
    for tensor in h5_files.read_file(task) if task.exists() else ():
        tensors[f"task/{tensor.name}"] = tensor
    return tensors
