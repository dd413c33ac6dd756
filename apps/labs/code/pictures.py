"""What the lab Pictures computes. The page shows these functions as its code."""

import inspect

import numpy as np

SIDE, PATCH, BATCH, EVERY = 24, 6, 64, 50
SIZES = {"num_layers": 2, "num_heads": 4, "hidden_dim": 48, "max_sequence_length": 14}
STEPS = {"contrastive": 1500, "caption": 3000}
TAGS = {"en": "english", "fr": "french"}  # the first word that a network writes


def captioned(count, seed, languages=("en", "fr"), objects=(1, 2), noise=0.0):
    """Returns sets of scenes, one for each language and number of shapes."""
    from kerasseq import datasets

    kinds = [(language, n) for language in languages for n in objects]
    return [
        datasets.scenes(
            count // len(kinds), objects=n, language=language, noise=noise, seed=seed
        )
        for language, n in kinds
    ]


def joined(scenes, tagged):
    """Returns pictures and captions of sets of scenes, with a word for the language."""
    images = np.concatenate([each.images for each in scenes])
    texts = [(TAGS[each.language], text) for each in scenes for text in each.texts]
    return images, [" ".join(pair if tagged else pair[1:]) for pair in texts]


def words():
    """Returns a tokenizer of the words of all captions."""
    from kerasseq import text

    _, captions = joined(captioned(1200, 1), tagged=True)
    found = sorted({word for caption in captions for word in caption.split()})
    return text.WordTokenizer().fit([" ".join(found)])


def make(head):
    """Returns a model that knows the words, and nothing else."""
    from kerasseq import models

    sizes = {"image_size": SIDE, "patch_size": PATCH, **SIZES}
    return models.Multimodal(words(), head=head, **sizes)


def optimizer(steps, rate=2e-3):
    """Returns AdamW, whose rate rises in 100 steps and falls to 0 as a cosine."""
    import keras

    warm_up = min(100, steps // 2)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=rate, warmup_steps=warm_up
    )
    options = {"weight_decay": 0.01, "beta_2": 0.98, "global_clipnorm": 1.0}
    return keras.optimizers.AdamW(schedule, **options)


def train(head, steps, seed):
    """Trains on scenes of one shape and of two, of which none comes twice.

    Yields:
        The steps, the model and its loss, every 50 steps.
    """
    import keras

    keras.utils.set_random_seed(seed)
    model = make(head)
    model.compile(optimizer(steps))
    for done in range(EVERY, steps + 1, EVERY):
        noise = (0.0, 0.05, 0.1)[done // EVERY % 3]
        data = captioned(EVERY * BATCH, 1_000_000 * (1 + seed) + done, noise=noise)
        fitted = model.fit(
            *joined(data, tagged=head == "caption"), batch_size=BATCH, verbose=0
        )
        yield done, model, fitted.history["loss"][-1]


def scene(colors, shapes, sizes, where, seed, noise, language):
    """Returns the first of many random scenes that shows what was asked."""
    from kerasseq import datasets

    asked, options = (colors, shapes, sizes, where), {"objects": len(colors)}
    for row in range(1000 * seed, 1000 * seed + 1000):
        options |= {"language": language, "seed": row}
        data = datasets.scenes(1000, **options)
        shown = zip(data.colors, data.shapes, data.sizes, data.layouts, strict=True)
        for n, found in enumerate(shown):
            if found == asked:  # scene n is the same in a shorter row
                return datasets.scenes(n + 1, **options, noise=noise)[n:]
    raise ValueError(f"no scene shows {asked}")


def log_softmax(x):
    """Returns logarithms of numbers that sum to 1 over the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def loss(cosines, scale, kind, bias=-10.0):
    """Returns the loss of a batch, `(B, B)` cosines of its pictures and captions."""
    s = scale * cosines
    if kind == "softmax":
        both = np.diag(log_softmax(s)), np.diag(log_softmax(s.T))
        return -np.concatenate(both).mean()
    y = 2 * np.eye(len(s)) - 1
    return np.logaddexp(0, -y * (s + bias)).sum() / len(s)


def contributions(model, image, caption):
    """Returns what each patch and each word add to the cosine, `(patches, words)`.

    The first and the last word are the start and the end of the caption.
    """
    import keras

    split = keras.Model(model.input, model.get_layer("split").output)
    inputs, parts = model.encode(image[None], [caption]), []
    for kind, tokens in zip(("images", "texts"), split(inputs), strict=True):
        h = keras.ops.convert_to_numpy(tokens)[0]  # (T, D)
        kernel = model.get_layer(f"{kind}_projection").kernel
        h = h @ keras.ops.convert_to_numpy(kernel)
        parts.append(h / len(h) / np.linalg.norm(h.mean(axis=0)))
    return parts[0] @ parts[1].T


def blanked(model, image, caption):
    """Returns by how much the cosine falls if a patch is black, `(patches,)`."""
    count = (SIDE // PATCH) ** 2
    images = np.repeat(image[None], count + 1, axis=0)  # the last one stays
    for n in range(count):
        row, column = (PATCH * x for x in divmod(n, SIDE // PATCH))
        images[n, row : row + PATCH, column : column + PATCH] = 0
    cosines = model.embed_images(images) @ model.embed_texts([caption])[0]
    return cosines[-1] - cosines[:-1]


def describe(model, images, language):
    """Returns the captions that a model writes after the word for a language.

    Each time the most probable word is taken.
    """
    import keras

    tokenizer, captions = model.tokenizer, [[TAGS[language]] for _ in images]
    for _ in range(SIZES["max_sequence_length"] - 1):
        texts = [" ".join(words) for words in captions]
        inputs = model.encode(images, texts)
        # Of one length at each word, so that a backend compiles once; -1 is not read.
        later = SIZES["max_sequence_length"] + 1 - inputs["ids"].shape[1]
        inputs["ids"] = np.pad(inputs["ids"], ((0, 0), (0, later)), constant_values=-1)
        logits = keras.ops.convert_to_numpy(model(inputs))
        for words, text, row in zip(captions, texts, logits, strict=True):
            after = row[len(tokenizer.encode(text))]
            best = 1 + int(after[1:].argmax())  # 0 stands for unknown words
            if best < tokenizer.vocabulary_size:  # else it is the end
                words.append(tokenizer.vocabulary[best])
    return [" ".join(words[1:]) for words in captions]


def attention(model, image, caption, language):
    """Returns how a model reads a picture while it writes a caption.

    Returns:
        Its attention to the patches, `(layers, heads, words, patches)`, and the
        probability of each word.
    """
    import keras

    from kerasseq import tracing

    caption = " ".join([TAGS[language], caption])
    ids, patches = model.tokenizer.encode(caption), (SIDE // PATCH) ** 2
    with tracing.trace(model) as inside:
        logits = model(model.encode(image[None], [caption]))
    log_p = log_softmax(keras.ops.convert_to_numpy(logits)[0, 1 : len(ids)])
    names = [f"block_{n}/self_attention/alignment" for n in range(SIZES["num_layers"])]
    weights = np.stack([np.asarray(inside[name])[0] for name in names])
    # The token before a word writes it: that of the language writes the first.
    weights = weights[:, :, patches + 1 : patches + len(ids), :patches]
    return weights, np.exp(log_p[np.arange(len(ids) - 1), ids[1:]])


def touches(box):
    """Returns which patches touch the box of a shape, `(patches,)`."""
    left, top, right, bottom = box
    start = PATCH * np.arange(SIDE // PATCH)
    columns = (start < right) & (start + PATCH > left)
    rows = (start < bottom) & (start + PATCH > top)
    return (rows[:, None] & columns).ravel()


HEAD = f"""import numpy as np

SIDE, PATCH, BATCH, EVERY = {SIDE}, {PATCH}, {BATCH}, {EVERY}
SIZES = {SIZES}
STEPS = {STEPS}
TAGS = {TAGS}
"""
TRAIN = """
for done, model, loss_now in train("{head}", STEPS["{head}"], 0):
    print(done, "steps: loss", round(loss_now, 3))
"""
SCENE = """
data = scene({colors}, {shapes}, {sizes}, {where}, {seed}, {noise}, {language})
image, boxes = data.images[0], data.boxes[0]
print(data.texts[0])
"""
MATCH = """
captions = {captions}
cosines = (model.embed_images(image[None]) @ model.embed_texts(captions).T)[0]
p = np.exp(log_softmax(model.temperature * cosines))
for caption, cosine, share in zip(captions, cosines, p):
    print(caption, "cosine", round(float(cosine), 3), "p", round(float(share), 4))

added = contributions(model, image, {caption})
print("sum of all parts:", added.sum(), "words:", added.sum(axis=0).round(3))
fall = blanked(model, image, {caption})
on = np.any([touches(box) for box in boxes], axis=0)
for name, values in (("adds", added.sum(axis=1)), ("falls if black", fall)):
    print(name, values.reshape(SIDE // PATCH, -1).round(3))
    print("on the shapes:", abs(values[on]).sum() / abs(values).sum(), on.mean())
"""
BATCH_OF_SIX = """
images, captions = joined(captioned(12, {seed}, ({language},)), tagged=False)
rows = [*range(3), *range(6, 9)]  # of one shape, and of two
images, captions = images[rows], [captions[n] for n in rows]
cosines = model.embed_images(images) @ model.embed_texts(captions).T
print(cosines.round(2))
for scale in ({scale}, model.temperature):
    print("scale", scale, "loss", loss(cosines, scale, {kind}, {bias}))
"""
WORDS = """
caption = {caption} or describe(model, image[None], {language})[0]
weights, p = attention(model, image, caption, {language})
layer, head = {layer}, {head}  # 0: the mean of all
weights = weights[layer - 1] if layer else weights.mean(axis=0)
weights = weights[head - 1] if head else weights.mean(axis=0)
inside = [touches(box) for box in boxes]
print("uniform map:", [round(float(each.mean()), 2) for each in inside])
for word, each, chance in zip(model.tokenizer.tokenize(caption), weights, p):
    shares = [round(float(each[on].sum() / each.sum()), 2) for on in inside]
    print(word, "p", round(float(chance), 3), "on each shape", shares)
"""
QUICK = {  # in tests a network takes few steps
    f"SIDE, PATCH, BATCH, EVERY = {SIDE}, {PATCH}, {BATCH}, {EVERY}\n": (
        f"SIDE, PATCH, BATCH, EVERY = {SIDE}, {PATCH}, 4, 2\n"
    ),
    f"STEPS = {STEPS}\n": "STEPS = dict.fromkeys(['contrastive', 'caption'], 2)\n",
}
LEARNING = (captioned, joined, words, make, optimizer, train)
VIEWS = {
    "match": ((scene, log_softmax, contributions, blanked, touches), SCENE + MATCH),
    "batch": ((log_softmax, loss), BATCH_OF_SIX),
    "words": ((scene, log_softmax, describe, attention, touches), SCENE + WORDS),
}


def source(view):
    """Returns the code of a view, as a template."""
    functions, end = VIEWS[view]
    found = "\n\n".join(inspect.getsource(each) for each in (*LEARNING, *functions))
    head = "caption" if view == "words" else "contrastive"
    return f"{HEAD}\n\n{found}{TRAIN.replace('{head}', head)}{end}"
