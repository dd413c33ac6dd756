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
    if model != "gpt":
        tokenizer = kerasseq.text.CharacterTokenizer().fit(ALPHABET)
        return kerasseq.models.LanguageModel(model, tokenizer, units=64)
    position = option(recipe, "--position", "learned")
    return kerasseq.models.GPT(
        kerasseq.text.BytePairTokenizer(290).fit(TEXT),
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


SAME = {  # models that differ in their data alone are one here
    f"translation_numbers_{kind}": f"translation_dates_{kind}"
    for kind in ("bahdanau", "none")
}
MAKERS = {
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
            (folder / name / "results.json").write_text(json.dumps({}))
        return path

    def find(manager, name, backend):
        known = name in recipes() and recipes()[name].words[0] in MAKERS
        return make(name) if known else found(manager, name, backend)

    monkeypatch.setattr(prepared, "find", find)
    return make
