r"""`kerasseq compare translators`: RNNenc, RNNsearch and a Transformer of equal size.

Train an encoder-decoder without attention (RNNenc), one with attention (RNNsearch) and
a Transformer on the same sentence pairs, each with words and with sub-words as tokens.
Their widths are chosen such that all have as many parameters, within 5 %. Printed are
BLEU, in all and by the length of the source, with intervals; what becomes of names that
the training does not have; and one sentence, translated by all. By default the pairs
are generated: French sentences with names of people, and their English translations.

Examples:
  kerasseq compare translators
  kerasseq compare translators --models rnnenc,rnnsearch --tokenizers word --seeds 0
  kerasseq compare translators --pairs deu.txt --vocabulary-size 4000 --steps 10000
  kerasseq compare --resume runs/translators-1
"""

import functools
import importlib.util

from kerasseq.cli import (
    contest,
    options,
    runs,
    translation,
    translator_data,
    translator_models,
    translator_scores,
)
from kerasseq.cli.console import choose_backend
from kerasseq.cli.options import Option
from kerasseq.cli.run import Run
from kerasseq.core import backend, packages

FILE = "pairs"  # the argument that names the user's data
OF_FILE = ("strict",)
MODELS = ("rnnenc", "rnnsearch", "transformer")
TOKENIZERS = ("word", "bpe")
TABLE = "translators.csv"
DEFAULTS = {
    "models": list(MODELS),
    "tokenizers": list(TOKENIZERS),
    "pairs": None,
    "data": None,
    "encoding": "utf-8",
    "strict": False,
    "count": 12_000,
    "test_examples": 600,
    "data_seed": 0,
    "vocabulary_size": 300,
    "parameters": 150_000,
    "batch_size": 32,
    "learning_rate": None,
    "steps": 1000,
    "checkpoint_every": 100,
    "seeds": [0, 1, 2],
    "processes": 1,
    "bootstrap": 1000,
    "sentence": None,
}
CHOICES = {"models": MODELS, "tokenizers": TOKENIZERS, "data": translator_data.DATA}
HELP = {
    "steps": "training steps of each model",
    "vocabulary_size": "maximum number of tokens of each tokenizer",
    "learning_rate": "highest learning rate of Adam (default: 0.01; for a transformer "
    "0.004)",
}
_TESTED = "held-out pairs; of a file, at most a fifth"
_SIZE = "parameters of each model, within 5 %%"
_SENTENCE = "a sentence that all translate (default: the longest with a new name)"
_SAMPLES = "bootstrap samples of the held-out pairs"
_PROCESSES = "models that train at the same time, each in a process of its own"
_COUNT = options.integer(20, 10**6)
OPTIONS = (
    Option("--tokenizers --tokenizer", "tokenizer", "", "NAME", "data"),
    *(row for row in translation.OPTIONS if row.argument in ("pairs", "strict")),
    Option("--count", _COUNT, "training pairs of --data", group="data"),
    Option("--test-examples", options.integer(4, 10**5), _TESTED, group="data"),
    Option("--data-seed", options.seed, "random seed of the pairs", group="data"),
    Option("--parameters", options.integer(1000), _SIZE, group="model"),
    Option("--processes", options.integer(at_most=256), _PROCESSES, group="training"),
    Option("--bootstrap", options.integer(at_most=100_000), _SAMPLES),
    Option("--sentence", str, _SENTENCE, "TEXT"),
)


def train(run: Run) -> runs.Results:
    """Trains each model with each tokenizer and seed, unless finished, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    if run.record and run.record.get("competitor"):
        return translator_models.train(run)
    settings = run.settings
    choose_backend(None)  # to score, also after training in processes
    if importlib.util.find_spec("sacrebleu") is None:
        raise ImportError(packages.missing("BLEU needs", "sacrebleu"))
    data, record = run.read("the pairs", translator_data.read)
    names = contest.names(
        [f"{m}-{t}" for m in settings.models for t in settings.tokenizers],
        settings.seeds,
    )
    run.start(
        record,
        f"{record['source']}: {len(data.training.sources):,} training pairs and "
        f"{len(data.tested.sources):,} held out, on {backend.chosen()}. The run is "
        f"saved in {run.folder}",
    )
    run.end_dry_run(f"{len(names)} models", competitors=names)

    def own(model):
        kind, tokenizer = model.split("-")
        return {"models": [kind], "tokenizers": [tokenizer]}

    count = len(data.tested.sources)
    stored = functools.partial(translator_scores.stored, count=count)
    words = own, stored, translator_models.train
    found = contest.train_in_folders(run, names, *words)
    results = {
        "task": run.task,
        "source": record["source"],
        "pairs": [len(data.training.sources), count],
        "seeds": settings.seeds,
        "steps": settings.steps,
        **translator_scores.compare(data, found, settings.bootstrap),
        "run": str(run.folder),
    }
    translator_scores.show(run.console, results)
    rows = translator_scores.rows_of(results)
    contest.write_table(run, TABLE, translator_scores.COLUMNS, rows)
    return run.finish(results)
