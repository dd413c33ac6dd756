"""Models as files of other runtimes: which formats hold each, and how exactly.

Each model has random weights and small sizes. A row says for each format the largest
difference of the file from the model, relative to the largest output, at batch sizes
and lengths other than those that it was written with; or the fixed length; or why the
format cannot hold the model. It needs the packages of the extra `export`. A row is
written to `--out` as soon as it is known, in Markdown.

GPT, Transformer, T5 and Seq2Seq are two programs in the format "onnx", compared for a
prompt and three steps. "not checked" is a folder of Hugging Face that nothing compares.

Most formats are written by TensorFlow. With `--backend torch` "torch" is faster, as no
other process is needed.
"""

import pathlib
import tempfile
import time

import keras

from benchmarks.options import add_names_arguments
from kerasseq import exporting, models

V, UNITS, LENGTH = 11, 8, 16
FORMATS = ("onnx", "tf_saved_model", "torch", "openvino", "litert", "huggingface")
REFUSED = "nothing is left of the files. "  # in a message, before the reasons
CLASSIFIERS = (
    *("bag", "elman", "lstm", "peephole_lstm", "gru", "min_gru", "slstm", "wavenet"),
    *("transformer", "longformer", "linear_attention", "gla", "retention"),
    *("delta_net", "mlstm", "rwkv4", "rwkv7", "s4d", "mamba"),
)
IDS = {"vocabulary_size": V}
PAIR = {"source_vocabulary_size": V, "target_vocabulary_size": V}
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
OTHERS = {
    "tagger, CRF": lambda: models.SequenceTagger(
        "lstm", 3, **IDS, units=UNITS, crf=True
    ),
    "Forecaster": lambda: models.Forecaster("lstm", units=UNITS, horizon=2),
    "BERT": lambda: models.BERT(**IDS, **SMALL).with_head("classify", labels=3),
    "ViT": lambda: models.ViT(3, image_size=8, patch_size=4, channels=1, **SMALL),
    "GPT": lambda: models.GPT(**IDS, **SMALL),
    "Transformer": lambda: models.Transformer(**PAIR, **SMALL),
    "T5": lambda: models.T5(**IDS, **SMALL),
    "Seq2Seq": lambda: models.Seq2Seq("gru", **PAIR, units=UNITS),
}
MODELS = (*CLASSIFIERS, *(name.replace(", ", "-") for name in OTHERS))


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser,
        [
            ("--models", MODELS, ",".join(MODELS)),
            ("--formats", FORMATS, ",".join(FORMATS)),
        ],
    )
    parser.add_argument("--out", help="file of the table, in Markdown")


def run(options):
    """Exports the models, and returns a table with a row for each."""
    table, lines = [], [head(options.formats)]
    for name in options.models:
        row = {"model": name}
        for format in options.formats:
            start = time.perf_counter()
            row[format] = exported(build(name), format)
            row[f"{format} s"] = round(time.perf_counter() - start)
        table.append(row)
        lines.append(markdown(row, options.formats))
        if options.out:
            pathlib.Path(options.out).write_text("\n".join(lines) + "\n")
    return {"fixed length": LENGTH, "table": table}


def build(name):
    """Makes a model with random weights."""
    keras.utils.set_random_seed(1)
    if name in CLASSIFIERS:
        return models.SequenceClassifier(name, 3, **IDS, units=UNITS)
    return {key.replace(", ", "-"): make for key, make in OTHERS.items()}[name]()


def exported(model, format):
    """Returns how a model was exported, in a few words."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = exporting.export_model(
                model, f"{folder}/out", format, length=LENGTH
            )
        except (ImportError, ValueError) as error:
            return f"refused: {str(error).rpartition(REFUSED)[2]}"
    return described(found.difference, found.length, found.backend)


def described(difference, length, backend):
    """Returns the words for a file that is right, or was not checked."""
    right = "not checked" if difference is None else f"{max(difference, 1e-9):.0e}"
    words = [right]
    if length is not None:
        words.append("fixed length")
    if backend == "torch":
        words.append("by PyTorch")
    return ", ".join(words)


def head(formats):
    """Returns the head of the table."""
    return f"| model | {' | '.join(formats)} |\n|---|{'---|' * len(formats)}"


def markdown(row, formats):
    """Returns a row of the table; the reason of a refusal is cut."""
    cells = [row[format].replace("|", "/")[:200] for format in formats]
    return f"| {row['model']} | {' | '.join(cells)} |"
