"""The models of `kerasseq compare translators`: built at equal sizes, and trained."""

import time
from typing import Any

import kerasseq
from kerasseq.cli import schedule, translator_data
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.run import Run
from kerasseq.cli.schedule import BYTES, COPIES
from kerasseq.core import checks
from kerasseq.text.tokenizers.tokenizer import Tokenizer

HEADS, LAYERS = 2, 2  # of the Transformer; the others have one layer
RATES = {"rnnenc": 1e-2, "rnnsearch": 1e-2, "transformer": 4e-3}
WARM_UP = 100  # steps, at most a quarter of all
UNKNOWN = "<unk>"


def train(run: Run) -> dict[str, Any]:
    """Trains a model, and translates the held-out sources.

    Args:
        run: Its run, with one model, one tokenizer and one seed.

    Returns:
        The results, as plain data: the translations and sizes.
    """
    import keras

    settings = run.settings
    (name,), (kind,), (seed,) = settings.models, settings.tokenizers, settings.seeds
    label = f"{name}-{kind}, seed {seed}"
    data, _ = run.read("the pairs", translator_data.read)
    tokenizers = make_tokenizers(kind, settings.vocabulary_size, data.training)
    matched = width_of(name, tokenizers, settings.parameters)
    keras.utils.clear_session()
    set_seed(seed)
    model = build(name, tokenizers, matched.width)
    rate = settings.learning_rate or RATES[name]
    steps = settings.steps
    model.compile(schedule.adam(rate, steps, min(WARM_UP, steps // 4), last=0.02))
    with status("batching the pairs"):
        batches = model.batches(
            *data.training, batch_size=settings.batch_size, seed=seed
        )
    history = run.fit(model, batches, steps, "accuracy", label)
    with status(f"translating the held-out sources with {label}"):
        start = time.perf_counter()
        texts = translations(model, data.tested.sources)
        (sentence,) = translations(model, [data.sentence])
        seconds = time.perf_counter() - start
    lengths = map(len, tokenizers[0].encode(data.tested.sources))
    results = run.results(
        *(model, history, steps),
        tokenizer=kind,
        seed=seed,
        width=matched.width,
        vocabularies=[tokenizer.vocabulary_size for tokenizer in tokenizers],
        tokens=sum(lengths) / len(texts),
        seconds=kerasseq.runs.read_progress(run.folder).lines[-1]["seconds"],
        translating_seconds=round(seconds, 3),
        translations=texts,
        sentence=sentence,
    )
    return run.finish(results | {"model": name})


def make_tokenizers(
    kind: str, vocabulary_size: int, training: "kerasseq.datasets.Pairs"
) -> list[Tokenizer]:
    """Trains the tokenizers of sources and targets.

    Those of words differ; byte pairs are learned from both languages at once, so that a
    name is cut in the same way in both (Sennrich et al. 2016).
    """
    with status("training the tokenizers"):
        if kind == "word":
            return [
                kerasseq.text.WordTokenizer(vocabulary_size).fit("\n".join(texts))
                for texts in training
            ]
        shared = kerasseq.text.BytePairTokenizer(
            vocabulary_size, level="character", unknown=UNKNOWN
        )
        return [shared.fit("\n".join([*training.sources, *training.targets]))] * 2


def width_of(
    name: str, tokenizers: list[Tokenizer], parameters: int
) -> "kerasseq.models.MatchedWidth":
    """Finds the width at which a model has the parameters of all others.

    Raises:
        UsageError: If there is none, or the memory does not suffice.
    """
    needed = parameters * COPIES * BYTES
    if needed > checks.memory():
        raise UsageError(
            f"--parameters {parameters:,} take {needed / 2**30:,.0f} GiB; this machine "
            f"has {checks.memory() / 2**30:,.0f} GiB. Choose fewer"
        )
    multiple = HEADS if name == "transformer" else 1
    with status(f"finding the width of {name}"):
        try:
            return kerasseq.models.matched_width(
                lambda width: build(name, tokenizers, width).count_params(),
                parameters,
                multiple=multiple,
            )
        except ValueError as error:
            raise UsageError(f"--parameters: {name}: {error}") from error


def build(
    name: str, tokenizers: list[Tokenizer], width: int
) -> "kerasseq.models.Seq2Seq | kerasseq.models.Transformer":
    """Builds a model: RNNenc, RNNsearch, or a Transformer of two layers.

    The output of the recurrent ones reads the previous word, the state and the context,
    as in both papers.
    """
    if name == "transformer":
        return kerasseq.models.Transformer(
            *tokenizers,
            num_layers=LAYERS,
            num_heads=HEADS,
            hidden_dim=width,
            dropout=0.0,
            norm_placement="pre",
        )
    return kerasseq.models.Seq2Seq(
        "gru",
        *tokenizers,
        attention=None if name == "rnnenc" else "bahdanau",
        output_reads="previous",
        units=width,
    )


def translations(model: Any, sources: list[str]) -> list[str]:
    """Returns the translations of texts, by greedy search."""
    return [found.text for found in model.translate(sources, alignments=False)]
