"""The code that the lab Language model shows: templates, put together by `source`."""

from collections.abc import Mapping

NETWORK = """
model = kerasseq.load_model({model_file})
"""

REFERENCE = """
text = kerasseq.datasets.python_reference()
cut = len(text) - min(len(text) // 10, {held_out})
"""

FILE = REFERENCE.replace("python_reference()", "text_file({file})")

GENERATED = """
source = kerasseq.datasets.markov_source(5, order=2, seed=0)
text = "".join("abcde"[n] for n in source.sample(1, 100_000, seed=1)[0])
print(round(source.optimum, 3), "bits a letter at least")
pathlib.Path({file}).write_text(text)  # which the networks are trained on
cut = len(text) - min(len(text) // 10, {held_out})
"""

NGRAM = """
model = NGramModel({n}, smoothing="kneser_ney", tokenizer=CharacterTokenizer())
model.fit(text[:cut])
"""

NEXT = """
found = model.next_tokens({prompt}{sampling})
for n, token in enumerate(found.tokens[:20]):
    stages = {name: round(float(p[n]), 3) for name, p in found.stages.items()}
    print(repr(token), stages, "cut by", found.cut_by[n])
"""

NEXT_OF_NGRAM = """
p = model.probabilities({prompt})
logits = np.log(np.maximum(p, 1e-30)).astype("float32")[None]
sampler = kerasseq.decoding.get_sampler("random"{sampling})
stages = {
    name: keras.ops.convert_to_numpy(found)[0]
    for name, found in sampler.stages(logits).items()
}
for i in (-p).argsort()[:20]:
    found = {name: round(float(each[i]), 3) for name, each in stages.items()}
    print(repr(model.tokenizer.decode([i])), found)
"""

WRITE = """
for piece in model.stream({prompt}, {length}, seed={seed}{sampling}):
    print(piece, end="", flush=True)
"""

WRITE_OF_NGRAM = """
sampler = kerasseq.decoding.get_sampler("random"{sampling})
rng = np.random.default_rng({seed})
written = {prompt}
for _ in range({length}):
    p = model.probabilities(written[1 - {n} :])
    logits = np.log(np.maximum(p, 1e-30)).astype("float32")[None]
    chosen = sampler.choose(logits, rng.random(1, "float32"), None, None)
    written += model.tokenizer.decode([int(keras.ops.convert_to_numpy(chosen)[0])])
print(written)
"""

SURPRISE = """
ngram = NGramModel({beside}, smoothing="kneser_ney", tokenizer=CharacterTokenizer())
ngram.fit(text[:cut])
prompt = {prompt}
for found in (model.surprise(prompt), ngram.surprise(prompt)):
    print(found.bits[1:].mean().round(2), "bits per character")
    for character, bits in zip(found.tokens, found.bits):
        print(repr(character), bits.round(1), end="  ")
    print()
"""

COMPARE = """
for n in {orders}:
    model = NGramModel(n, smoothing="kneser_ney", tokenizer=CharacterTokenizer())
    model.fit(text[:cut])
    print(f"{n}-grams", round(model.bits_per_token(text[cut:]), 3))
for name, model_file in {networks}.items():
    model = kerasseq.load_model(model_file)
    print(name, round(model.bits_per_token(text[cut:]), 3))
"""

BODIES = {  # of a network, and of an n-gram model
    "next": (NEXT, NEXT_OF_NGRAM),
    "write": (WRITE, WRITE_OF_NGRAM),
    "surprise": (SURPRISE, SURPRISE),
}


def source(
    view: str,
    sampling: Mapping[str, float] | None = None,
    *,
    of_network: bool = False,
    of_file: bool = False,
    of_source: bool = False,
) -> str:
    """Returns the code of a view, as a template.

    Args:
        view: "next", "write", "surprise" or "compare".
        sampling: Arguments of the sampler, which are written into it.
        of_network: Whether the model is a network, not an n-gram model.
        of_file: Whether n-grams are counted in a file, not in the reference of Python.
        of_source: Whether the text of the file is generated.

    Examples:
        >>> print(source("write", {"top_k": 5}, of_network=True).split("stream")[1])
        ({prompt}, {length}, seed={seed}, top_k=5):
            print(piece, end="", flush=True)
        <BLANKLINE>
    """
    body = COMPARE if view == "compare" else BODIES[view][not of_network]
    words = "".join(f", {name}={value}" for name, value in (sampling or {}).items())
    body = body.replace("{sampling}", words)
    model = [NETWORK] if of_network else [] if view == "compare" else [NGRAM]
    has_ngrams = not of_network or view == "surprise"
    text = [FILE if of_file else REFERENCE] if has_ngrams else []
    imports = ["\n"]
    if of_source:
        text = [GENERATED]
        imports.append("import pathlib\n\n")
    if "keras.ops" in body:
        imports.append("import keras\nimport numpy as np\n\n")
    imports.append("import kerasseq\n")
    if has_ngrams:
        imports.append("from kerasseq.text import CharacterTokenizer, NGramModel\n")
    return "".join([*imports, *text, *model, body])
