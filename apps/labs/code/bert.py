"""What the lab BERT computes. The page shows these functions as its code."""

import inspect

TASKS = ("direction", "mistake")
SIZES = (16, 64, 256, 1024)  # labeled examples
STEPS = 120  # with 16 of them each


def mask(text, rate, share, seed, draws):
    """Masks a text; returns its tokens, what is chosen, and counts over many draws."""
    import numpy as np

    import kerasseq

    tokenizer = kerasseq.text.WordPieceTokenizer(10_000).fit(text)
    masking = kerasseq.training.MaskedLMMaskGenerator(
        tokenizer,
        mask_selection_rate=rate,
        mask_token_rate=share,
        random_token_rate=(1 - share) / 2,
        seed=seed,
    )
    tokens = tokenizer.tokenize(text)
    row = [tokenizer.id_of(t) for t in ("[CLS]", *tokens, "[SEP]")]
    ids = np.tile(row, (draws, 1))  # the first is shown, all are counted
    masked = masking(ids)
    chosen = np.zeros(ids.shape, bool)
    rows, columns = np.nonzero(masked.weights)
    chosen[rows, masked.positions[rows, columns]] = True
    hidden = masked.ids == masking.mask_token_id
    other = (masked.ids != ids) & ~hidden
    words = len(tokens) * draws
    return {
        "before": [tokenizer.vocabulary[i] for i in ids[0]],
        "after": [tokenizer.vocabulary[i] for i in masked.ids[0]],
        "chosen": np.flatnonzero(chosen[0]).tolist(),
        "selectable": tokenizer.vocabulary_size - len(masking.unselectable_token_ids),
        "counts": {
            "chosen": chosen.sum() / words,
            "mask": hidden.sum() / words,
            "random": other.sum() / words,
            "kept": (chosen & (masked.ids == ids)).sum() / words,
        },
    }


def load(folder, seed=None):
    """Returns the model; with a seed, the same network with random weights."""
    import keras

    import kerasseq

    model = kerasseq.load_model(f"{folder}/model.keras")
    if seed is None:
        return model
    keras.utils.set_random_seed(seed)
    return kerasseq.models.BERT.from_config(model.get_config())


def lengths(folder, texts):
    """Returns the number of tokens of each text, and of those a row has room for."""
    model = load(folder)
    found = [len(model.tokenizer.encode(text)) for text in texts]
    return found, model.max_sequence_length - 1 - len(texts)  # [CLS], and [SEP] each


def fill(folder, text, best):
    """Returns the most probable tokens for each [MASK], before and after training."""
    return {
        "before": load(folder, seed=0).fill(text, best),
        "after": load(folder).fill(text, best),
    }


def attend(folder, text, hole):
    """Returns the tokens that the model reads, and the weights of one [MASK]."""
    import numpy as np

    import kerasseq

    model = load(folder)
    x = model.reader.read([text]).arrays
    masks = np.flatnonzero(x["ids"][0] == model.reader.special_ids["[MASK]"])
    x["positions"] = masks[None].astype("int32")
    with kerasseq.tracing.trace(model) as inside:
        model(x)
    real = x["ids"][0] != model.reader.padding
    weights = [  # of each layer (heads, T)
        layer[0, :, masks[hole], real].T
        for name, layer in inside.items()
        if name.endswith("alignment")
    ]
    tokens = [model.tokenizer.vocabulary[i] for i in x["ids"][0, real]]
    return {"tokens": tokens, "weights": np.stack(weights), "at": int(masks[hole])}


def follows(folder, pairs):
    """Returns P(b follows a) for each pair (a, b), before and after training."""
    from keras import ops

    found = {}
    for name, seed in (("before", 0), ("after", None)):
        logits = load(folder, seed).predict(pairs, batch_size=128, verbose=0)["next"]
        found[name] = ops.convert_to_numpy(ops.softmax(logits))[:, 1].tolist()
    return found


def variants(first, second, seed):
    """Returns the pair, and others of the same words."""
    import numpy as np

    words = np.random.default_rng(seed).permutation(second.split())
    return {
        "given": (first, second),
        "swapped": (second, first),
        "shuffled": (first, " ".join(words)),
        "twice": (first, first),
    }


def continuations(first):
    """Returns a pair for each number from 0 to 99, with which the second begins."""
    from kerasseq.datasets import number_word

    numbers = [[number_word((n + i) % 100) for i in range(3)] for n in range(100)]
    return [(first, " ".join(words) + " .") for words in numbers]


def examples(task, size, seed):
    """Returns texts and their labels."""
    import numpy as np

    from kerasseq.datasets import counting, number_word

    half = size // 2
    if task == "direction":
        up, down = (counting(half, seed=seed + n, step=1 - 2 * n) for n in (0, 1))
        return [text for text, *_ in up + down], ["up"] * half + ["down"] * half
    rng = np.random.default_rng(seed)
    texts = []
    for n in range(2 * half):
        numbers = (rng.integers(100) + np.arange(6)) % 100
        if n >= half:  # one number is wrong
            place = rng.integers(1, 5)
            numbers[place] = (numbers[place] + rng.integers(1, 100)) % 100
        texts.append(" ".join(map(number_word, numbers)) + " .")
    return texts, ["right"] * half + ["wrong"] * half


def tune(folder, task, size, start, seed, steps):
    """Trains a classifier on labeled texts; returns its accuracy on others."""
    import keras

    model = load(folder, seed if start == "scratch" else None)
    x, y = examples(task, size, seed)
    labels = sorted(set(y))
    keras.utils.set_random_seed(seed)
    classifier = model.with_head("classify", labels)
    classifier.compile(keras.optimizers.Adam(1e-3))
    batch_size = min(size, 16)
    epochs = max(1, steps * batch_size // size)
    classifier.fit(x, y, batch_size=batch_size, epochs=epochs, seed=seed, verbose=0)
    others = zip(*examples(task, 500, seed + 10_000), strict=True)
    held_out = [(text, label) for text, label in others if text not in x]
    found = classifier.evaluate(
        *zip(*held_out, strict=True), return_dict=True, verbose=0
    )
    return {"accuracy": found["accuracy"], "weights": classifier.get_weights()}


def classify(folder, labels, weights, text):
    """Returns the probability of each label of a text."""
    classifier = load(folder).with_head("classify", labels)
    classifier.set_weights(weights)
    return classifier.classify(text).probabilities


HEAD = """
# The model was trained by: kerasseq train {words}
"""
CALLS = {
    "masking": """
found = mask({text}, {rate}, {share}, {seed}, {draws})
print(" ".join(found["before"]))
print(" ".join(found["after"]))
print({name: round(float(share), 4) for name, share in found["counts"].items()})
""",
    "hole": """
for name, holes in fill({model_folder}, {text}, {best}).items():
    print(name, [(token, round(p, 3)) for token, p in holes[{hole}]])
found = attend({model_folder}, {text}, {hole})
print(found["tokens"])
print(found["weights"].round(2))
""",
    "next": """
pairs = variants({first}, {second}, {seed})
for name, p in follows({model_folder}, [*pairs.values()]).items():
    print(name, dict(zip(pairs, [round(x, 3) for x in p])))
p = follows({model_folder}, continuations({first}))["after"]
print("The most probable numbers after it:", sorted(range(100), key=lambda n: -p[n])[:9])
""",
    "tuning": """
for size in {sizes}:
    for start in ("pretrained", "scratch"):
        found = tune({model_folder}, {task}, size, start, {seed}, {steps})
        print(size, start, round(found["accuracy"], 3))
labels = sorted(set(examples({task}, 8, {seed})[1]))
print(classify({model_folder}, labels, found["weights"], {text}))
""",
    "training": """
import json
import pathlib

import kerasseq

folder = pathlib.Path({model_folder})
results = json.loads((folder / "results.json").read_text())
for name in ("baselines", "before", "after"):
    print(name, results[name])
print(kerasseq.load_model(folder / "model.keras").count_params())
""",
}
USED = {
    "masking": (mask,),
    "hole": (load, fill, attend),
    "next": (load, follows, variants, continuations),
    "tuning": (load, examples, tune, classify),
    "training": (),
}


def source(view):
    """Returns the code of a view, as a template."""
    parts = [inspect.getsource(function) for function in USED[view]]
    head = "" if view == "masking" else HEAD
    return "\n\n".join([head, *parts, CALLS[view].lstrip()])
