"""Files damaged at random: each loads and works, or ends in an error that says where.

The damage is drawn from a seed: a value is replaced, removed or doubled, or bytes of
the file are lost or changed.
"""

import json
import random

import pytest

from kerasseq import text as kt
from kerasseq.core.files import walk
from kerasseq.text.classical.eliza import reader
from tests.limits import TooLong, within
from tests.text.huggingface_examples import KINDS, generate

pytestmark = pytest.mark.once("plain Python and NumPy: independent of the backend")

TEXT = "banana bandana, a bandage and a cabana " * 3
VALUES = [
    *(None, True, False, 0, -1, 1, 2.5, 10**9, 10**19, -(10**400), float("nan")),
    *("", "a", "ab", "\ud83d", [], {}, [None], ["a", "a"], [[1]], {"a": 1}, {"": "a"}),
]
# What a message may name in place of the damaged key, which it contradicts.
OTHERS = (
    *("special token", "pieces", "scores", "initial", "emission", "counts", "end"),
    *("coefficients", "document_frequency", "fit(", "added token"),
)


def savers():
    """Everything that saves itself, fitted, by name."""
    ids = [0, 1, 2, 1, 0, 2, 2, 1] * 5
    characters = kt.CharacterTokenizer(unknown="?").fit(TEXT)
    markov = kt.HiddenMarkovModel(2, 3, seed=0)
    markov.fit([0, 1, 2, 1, 0], max_iterations=1)
    special = ["<pad>", "<end>"]
    return {
        "character": characters,
        "word": kt.WordTokenizer(special_tokens=special).fit(TEXT),
        "byte_pair": kt.BytePairTokenizer(270, special_tokens=special).fit(TEXT),
        "letter_pair": kt.BytePairTokenizer(30, level="character").fit(TEXT),
        "wordpiece": kt.WordPieceTokenizer(40).fit(TEXT),
        "rwkv": kt.RWKVTokenizer([b"", *(bytes([n]) for n in range(256)), b"ban"]),
        "unigram": kt.UnigramTokenizer(40, byte_fallback=False).fit(TEXT),
        "ngram": kt.NGramModel(3, tokenizer=characters).fit(TEXT),
        "kneser_ney": kt.NGramModel(2, smoothing="kneser_ney").fit(ids, 4),
        "window": kt.SlidingWindowModel(2).fit(ids, 3),
        "markov": markov,
        "autoregression": kt.AutoRegression(2).fit([0.1, 0.5, 0.2, 0.4, 0.3, 0.9, 0.1]),
        "ibm": kt.IBMModel1(iterations=2).fit(["un a", "un b"], ["an a", "an b"]),
        "bag": kt.BagOfWords().fit(["a banana", "a band"]),
    }


def use(model):
    """What a loaded model is for."""
    for name in ("encode", "tokenize", "transform", "log_probabilities", "forecast"):
        method = getattr(model, name, None)
        if method is None:
            continue
        argument = {"transform": ["a b"], "log_probabilities": [0, 1], "forecast": 2}
        ids = method(argument.get(name, "banana <end> <pad> x"))
        if name == "encode":
            model.decode(ids)
            model.decode(list(range(min(9, model.vocabulary_size))))
    model.get_config()


def damage(content, draw):
    """Change one value of nested lists and tables; return the keys that lead to it."""
    places = [keys for keys, _ in walk(content) if keys]
    *before, last = keys = draw.choice(places)
    inner = content
    for key in before:
        inner = inner[key]
    kind = draw.choice(["replace", "replace", "replace", "remove", "double", "type"])
    if kind == "remove":
        del inner[last]
    elif kind == "double" and isinstance(inner, list):
        inner.insert(last, inner[last])
    elif kind == "type" and isinstance(inner[last], str | int):
        inner[last] = str(inner[last]) if isinstance(inner[last], int) else 7
    elif kind == "type" and isinstance(inner[last], float | list):
        inner[last] = {"0": inner[last]}
    else:
        inner[last] = draw.choice(VALUES)
    return keys


def judge(path, keys, load):
    """Load and use a damaged file; return what is wrong with how that ends, or None."""
    try:
        with within(20):
            model = load(path)
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        if str(path) not in text:
            return f"no file: {text}"
        # Two keys may disagree: then the other one may be named, or one of a list.
        named = [key.removesuffix("s") for key in keys if isinstance(key, str)]
        if keys and not any(key in text for key in (*named, *OTHERS)):
            return f"no key: {text}"
        return None
    except (Exception, TooLong) as error:
        return f"{type(error).__name__}: {error}"
    try:
        with within(20):
            use(model)
    except (ValueError, TypeError) as error:
        return None if str(error) else f"says nothing: {error!r}"
    except (Exception, TooLong) as error:
        return f"in use, {type(error).__name__}: {error}"
    return None


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Sound files by name: content and how each is loaded."""
    folder, found = tmp_path_factory.mktemp("saved"), {}
    for name, model in savers().items():
        model.save(folder / name)
        found[name] = (folder / name).read_bytes(), type(model).load
    return found


@pytest.mark.parametrize("name", savers())
def test_one_value(name, saved, tmp_path, request):
    content, load = saved[name]
    tries = 500 if request.config.getoption("full") else 40
    path, draw, wrong = tmp_path / "damaged.json", random.Random(name), []
    for _ in range(tries):
        changed = json.loads(content)
        keys = damage(changed, draw)
        path.write_text(json.dumps(changed))
        if problem := judge(path, keys, load):
            wrong.append((keys, problem[:300]))
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
def test_tokenizer_json(kind, tmp_path, request):
    tries = 200 if request.config.getoption("full") else 15
    path, draw, wrong = tmp_path / "tokenizer.json", random.Random(kind), []
    for _ in range(tries):
        content = generate(draw, kind)
        large = draw.choice([[], ["vocab", "merges"]])  # most of the values are there
        kept = {k: content["model"].pop(k) for k in large if k in content["model"]}
        keys = damage(content, draw)
        if isinstance(content.get("model"), dict):
            content["model"] |= kept
        path.write_text(json.dumps(content))
        if problem := judge(path, (), kt.load_tokenizer):  # the package names no key
            wrong.append((keys, problem[:300]))
    assert not wrong


@pytest.mark.parametrize("name", savers())
def test_some_bytes(name, saved, tmp_path, request):
    content, load = saved[name]
    tries = 200 if request.config.getoption("full") else 15
    path, draw, wrong = tmp_path / "damaged.json", random.Random(name), []
    for _ in range(tries):
        start = draw.randrange(len(content))
        end = draw.choice([start + 1, start + 9, len(content)])
        middle = draw.choice([b"", b"\xff", b"}", b'"', b"1e999", b"\0"])
        changed = content[:start] + middle + content[end:]
        path.write_bytes(changed)
        if problem := judge(path, (), load):
            wrong.append((start, end, middle, problem[:300]))
    assert not wrong


def test_rules_of_eliza(tmp_path, request):
    content = (reader.FOLDER / "en.toml").read_bytes()
    tries = 300 if request.config.getoption("full") else 20
    path, draw, wrong = tmp_path / "damaged.toml", random.Random(0), []
    lines = content.split(b"\n")
    for _ in range(tries):
        changed, at = list(lines), draw.randrange(len(lines))
        lost = [b"", b"a = 1", b"[x]", b'"', b"\xff", lines[0], b"rank = []"]
        new = draw.choice(lost)
        changed[at : at + draw.choice([0, 1, 1, 3])] = [new]
        path.write_bytes(b"\n".join(changed))
        try:
            kt.Eliza(path).reply("I remember my mother")
        except ValueError as error:
            if str(path) not in str(error):
                wrong.append((at, new, str(error)))
        except Exception as error:
            wrong.append((at, new, repr(error)))
    assert not wrong
