"""Small untrained models instead of those that a page trains at the first visit."""

import functools
import json

from parts import prepared
from parts.prepared import recipes

TEXT = "If the object is a class, the attribute of the object is the value."
PAIRS = (
    ("mercredi 17 décembre 1986", "1986-12-17"),
    ("March 9, 2004", "2004-03-09"),
    ("forty-two thousand", "zweiundvierzigtausend"),
)
ALPHABET = "".join(map(chr, range(32, 127))) + "\n"


def option(recipe, name, default=None):
    """The value of an option of `kerasseq train` in a recipe."""
    words = recipe.words
    return words[words.index(name) + 1] if name in words else default


def language_model(recipe):
    """A GPT with the positions and the length of a recipe, or a recurrent model."""
    import kerasseq

    model = option(recipe, "--model", "lstm")
    if option(recipe, "--tokenizer") == "bpe":
        tokenizer = kerasseq.text.BytePairTokenizer(290).fit(TEXT)
    else:
        tokenizer = kerasseq.text.CharacterTokenizer().fit(ALPHABET)
    if model != "gpt":
        return kerasseq.models.LanguageModel(model, tokenizer, units=64)
    position = option(recipe, "--position", "learned")
    return kerasseq.models.GPT(
        tokenizer,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        max_sequence_length=int(option(recipe, "--sequence-length", 64)),
        position=None if position == "none" else position,
    )


def translator(recipe):
    """A Transformer for characters of dates, or a recurrent model."""
    import kerasseq

    tokenizers = [
        kerasseq.text.CharacterTokenizer().fit("".join(texts))
        for texts in zip(*PAIRS, strict=True)
    ]
    if option(recipe, "--model") == "gru":
        attention = option(recipe, "--attention")
        return kerasseq.models.Seq2Seq(
            "gru",
            *tokenizers,
            units=8,
            attention=None if attention == "none" else attention,
        )
    return kerasseq.models.Transformer(
        *tokenizers, num_layers=2, num_heads=2, hidden_dim=8
    )


def classifier(recipe):
    """Reads parentheses of one color."""
    import kerasseq

    cell = option(recipe, "--model")
    return kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=3, units=12)


def bert(recipe):
    """Reads number words."""
    import kerasseq

    documents = kerasseq.datasets.counting(30)
    text = "\n".join(" ".join(document) for document in documents)
    return kerasseq.models.BERT(
        kerasseq.text.WordPieceTokenizer(98).fit(text),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        max_sequence_length=32,
        dropout=0.0,
        head="pretraining",
    )


def vision_transformer(recipe):
    """Reads digits."""
    import kerasseq

    labels = [str(n) for n in range(10)]
    sizes = {"image_size": 8, "patch_size": 2, "channels": 1, "hidden_dim": 8}
    return kerasseq.models.ViT(labels, num_layers=3, num_heads=2, **sizes)


def text_classifier(recipe):
    """Names the language of a word."""
    import kerasseq

    tokenizer = kerasseq.text.CharacterTokenizer().fit(ALPHABET)
    return kerasseq.models.SequenceClassifier(
        "gru", ["cs", "de", "fr"], tokenizer=tokenizer, units=5
    )


def word_vectors(recipe):
    """Exact analogies: each pair has a place of its own and the step of its class."""
    import numpy as np

    import kerasseq

    rng, vectors = np.random.default_rng(0), {}
    for questions in kerasseq.datasets.analogies(1).questions.values():
        step = rng.normal(size=13)
        for first, second in dict.fromkeys(question[:2] for question in questions):
            start = vectors.get(first, rng.normal(size=13))  # japan has two pairs
            vectors |= {first: start, second: start + 2 * step}
    vectors["tower"] = rng.normal(size=13)  # of no question
    matrix = np.stack(list(vectors.values()))
    return kerasseq.models.WordVectors.from_vectors(list(vectors), matrix)


RESULTS = {  # of the tasks whose results a page shows
    "language-model": {"bits_per_character": 2.5},
    "bert": {
        "baselines": {"tokens": 0.125, "next": 0.5},
        "before": {"tokens": 0.0, "next": 0.25},
        "after": {"tokens": 0.75, "next": 0.875},
        "pairs": 784,
    },
    "images": {
        "hardest": [
            {"file": f"digit {n}", "label": "1", "predicted": "8", "probability": 0.9}
            for n in (5, 7)
        ]
    },
    "classify": {
        "model": "gru",
        "accuracy": 0.75,
        "labels": ["cs", "de", "fr"],
        "confusion": [[3, 1, 0], [0, 2, 0], [1, 0, 1]],
        "baselines": {"majority": {"accuracy": 0.5}},
        "hardest": [
            {"text": "Praha", "label": "cs", "predicted": "de", "probability": 0.9},
            {"text": "Nice", "label": "fr", "predicted": "cs", "probability": 0.8},
        ],
    },
}
SAME = {  # models that differ in their data alone are one here
    f"translation_numbers_{kind}": f"translation_dates_{kind}"
    for kind in ("bahdanau", "none")
}
MAKERS = {
    "vectors": word_vectors,
    "images": vision_transformer,
    "classify": text_classifier,
    "bert": bert,
    "language-model": language_model,
    "translation": translator,
    "parentheses": classifier,
}


def install(monkeypatch, folder):
    """Pages find a small model of each kind that `MAKERS` has."""
    found = prepared.find

    @functools.cache
    def make(name):
        import keras

        name = SAME.get(name, name)
        recipe = recipes()[name]
        path = folder / name / recipe.part
        if not (path / "model.keras").exists():
            path.mkdir(parents=True)
            keras.utils.set_random_seed(0)
            MAKERS[recipe.words[0]](recipe).save(path / "model.keras")
            results = RESULTS.get(recipe.words[0], {})
            (folder / name / "results.json").write_text(json.dumps(results))
        return path

    def find(manager, name, backend):
        known = name in recipes() and recipes()[name].words[0] in MAKERS
        return make(name) if known else found(manager, name, backend)

    monkeypatch.setattr(prepared, "find", find)
    return make
