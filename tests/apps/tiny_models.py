"""Small untrained models instead of those that a page trains at the first visit."""

import functools

from parts import prepared
from parts.prepared import recipes

TEXT = "If the object is a class, the attribute of the object is the value."
PAIRS = (("mercredi 17 décembre 1986", "1986-12-17"), ("March 9, 2004", "2004-03-09"))


def gpt(recipe):
    """A GPT with the positions and the length of a recipe."""
    import kerasseq

    words = dict(zip(recipe.words[1::2], recipe.words[2::2], strict=True))
    position = words.get("--position", "learned")
    return kerasseq.models.GPT(
        kerasseq.text.BytePairTokenizer(290).fit(TEXT),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        max_sequence_length=int(words["--sequence-length"]),
        position=None if position == "none" else position,
    )


def translator(recipe):
    """A Transformer for characters of dates."""
    import kerasseq

    tokenizers = [
        kerasseq.text.CharacterTokenizer().fit("".join(texts))
        for texts in zip(*PAIRS, strict=True)
    ]
    return kerasseq.models.Transformer(
        *tokenizers, num_layers=2, num_heads=2, hidden_dim=8
    )


MAKERS = {"language-model": gpt, "translation": translator}


def install(monkeypatch, folder):
    """Pages find a small model of each kind that `MAKERS` has."""
    found = prepared.find

    @functools.cache
    def make(name):
        recipe = recipes()[name]
        path = folder / name / recipe.part
        if not (path / "model.keras").exists():
            path.mkdir(parents=True)
            MAKERS[recipe.words[0]](recipe).save(path / "model.keras")
        return path

    def find(manager, name, backend):
        known = name in recipes() and recipes()[name].words[0] in MAKERS
        return make(name) if known else found(manager, name, backend)

    monkeypatch.setattr(prepared, "find", find)
    return make
