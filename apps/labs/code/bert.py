"""What the lab BERT computes. The page shows these functions as its code."""

import inspect

SIZES = (32, 128, 512)  # labeled examples
STEPS = 80  # with 32 of them each


def mask(text, rate, share, seed, draws):
    """Masks a text; returns its tokens, what is chosen, and counts over many draws."""
    import numpy as np

    import kerasseq

    special = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer = kerasseq.text.WordTokenizer(special_tokens=special).fit(text)
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


def untrained(model, seed=0):
    """Returns the same network with random weights."""
    import keras

    import kerasseq

    keras.utils.set_random_seed(seed)
    return kerasseq.models.BERT.from_config(model.get_config())


def fill(model, text, best):
    """Returns the most probable tokens for each [MASK], before and after training."""
    return {
        "before": untrained(model).fill(text, best),
        "after": model.fill(text, best),
    }


def attend(model, text, hole):
    """Returns the tokens that the model reads, and the weights of one [MASK]."""
    import numpy as np

    import kerasseq

    x = model.preprocessor.rows([text]).arrays
    masks = np.flatnonzero(x["ids"][0] == model.preprocessor.special_ids["[MASK]"])
    x["positions"] = masks[None].astype("int32")
    with kerasseq.tracing.trace(model) as inside:
        model(x)
    real = x["ids"][0] != model.preprocessor.padding
    weights = [  # of each layer (heads, T)
        layer[0, :, masks[hole]][:, real]
        for name, layer in inside.items()
        if name.endswith("alignment")
    ]
    tokens = [model.tokenizer.vocabulary[i] for i in x["ids"][0, real]]
    return {"tokens": tokens, "weights": np.stack(weights)}


def follows(model, pairs):
    """Returns P(b follows a) for each pair (a, b), before and after training."""
    from keras import ops

    found = {}
    for when, network in (("before", untrained(model)), ("after", model)):
        logits = network.predict(pairs, batch_size=128, verbose=0)["next"]
        found[when] = ops.convert_to_numpy(ops.softmax(logits))[:, 1].tolist()
    return found


def variants(first, second):
    """Returns the pair, and others of the same words."""
    import numpy as np

    words = np.random.default_rng(0).permutation(second.split())
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


def examples(task, seed):
    """Returns 800 different texts of 4 to 11 numbers in random order, and labels."""
    import numpy as np

    from kerasseq.datasets import number_word

    rng = np.random.default_rng(seed)
    spans = [(first, length) for first in range(100) for length in range(4, 12)]
    texts, labels = [], []
    for n, (first, length) in enumerate(rng.permutation(spans)):
        numbers = first + np.arange(length)
        if task == "direction":
            labels.append(("up", "down")[n % 2])
            numbers = numbers[:: 1 - 2 * (n % 2)]
        else:  # one number is another, not the first and not the last
            labels.append(("right", "wrong")[n % 2])
            numbers[rng.integers(1, length - 1)] += n % 2 * rng.integers(1, 100)
        texts.append(" ".join(number_word(i % 100) for i in numbers) + " .")
    return texts, labels


def tune(model, task, size, pretrained, seed, steps):
    """Trains a classifier on labeled texts; returns its accuracy on 250 others."""
    import keras

    texts, labels = examples(task, seed)
    encoder = model if pretrained else untrained(model, seed)
    keras.utils.set_random_seed(seed)
    classifier = encoder.with_head("classify", sorted(set(labels)))
    classifier.compile(keras.optimizers.Adam(1e-3))
    batch_size = min(size, 32)
    classifier.fit(
        texts[:size],
        labels[:size],
        batch_size=batch_size,
        epochs=max(1, steps * batch_size // size),
        seed=seed,
        verbose=0,
    )
    found = classifier.evaluate(
        texts[-250:], labels[-250:], return_dict=True, verbose=0
    )
    return {"accuracy": found["accuracy"], "weights": classifier.get_weights()}


def classify(model, labels, weights, text):
    """Returns the probability of each label of a text."""
    classifier = model.with_head("classify", labels)
    classifier.set_weights(weights)
    return classifier.classify(text).probabilities


# In the worker: a function of a model, with the model of a folder.


def lengths(model, texts):
    """Returns the number of tokens of each text, and for how many there is room."""
    found = [len(model.tokenizer.encode(text)) for text in texts]
    return found, model.max_sequence_length - 1 - len(texts)  # [CLS], and [SEP] each


def run(name, folder, *arguments):
    """Calls a function of this module with a trained model."""
    from parts import work

    return globals()[name](work.model(folder), *arguments)


HEAD = """
import kerasseq

"""
MODEL = """
model = kerasseq.load_model({file})
"""
CALLS = {
    "masking": """
found = mask({text}, {rate}, {share}, {seed}, {draws})
print(" ".join(found["before"]))
print(" ".join(found["after"]))
print({name: round(float(share), 4) for name, share in found["counts"].items()})
""",
    "hole": """
for when, holes in fill(model, {text}, {best}).items():
    print(when, [(token, round(p, 3)) for token, p in holes[{hole}]])
found = attend(model, {text}, {hole})
print(found["tokens"])
print(found["weights"].round(2))  # (layers, heads, tokens)
""",
    "next": """
pairs = variants({first}, {second})
for when, p in follows(model, [*pairs.values()]).items():
    print(when, dict(zip(pairs, [round(x, 3) for x in p])))
p = follows(model, continuations({first}))["after"]
best = sorted(range(100), key=lambda n: -p[n])
print("It is most probably followed by the numbers", best[:9])
""",
    "tuning": """
for size in {sizes}:
    for pretrained in (True, False):
        found = tune(model, {task}, size, pretrained, {seed}, {steps})
        start = "pre-trained" if pretrained else "random"
        print(size, start, round(found["accuracy"], 3))
labels = sorted(set(examples({task}, {seed})[1]))
print(classify(model, labels, found["weights"], {text}))
""",
    "training": """
import json
import pathlib

folder = pathlib.Path({file}).parent
results = json.loads((folder / "results.json").read_text())
for name in ("baselines", "before", "after"):
    print(name, results[name])
print(model.count_params(), "parameters")
""",
}
USED = {
    "masking": (mask,),
    "hole": (untrained, fill, attend),
    "next": (untrained, follows, variants, continuations),
    "tuning": (untrained, examples, tune, classify),
    "training": (),
}


def source(view):
    """Returns the code of a view, as a template."""
    functions = [inspect.getsource(function) + "\n" for function in USED[view]]
    calls = CALLS[view].lstrip()
    if view == "masking":
        return "\n".join([*functions, calls])
    return "\n".join([HEAD, *functions, MODEL.strip(), calls])
