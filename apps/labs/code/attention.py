"""The code that the lab Attention shows."""

STEPS = """
import kerasseq

model = kerasseq.load_model({file})
ids = model.ids({text})[None]
with kerasseq.tracing.trace(model) as inside:
    logits = model(ids)
for name, value in inside.items():
    print(name, value.shape)

block, head = "block_{layer}", {head}
print(inside[f"{block}/self_attention/alignment"][0, head].round(2))

lens = kerasseq.tracing.logit_lens(model, {text})
for layer, z in zip(lens.layers, lens.logits):
    best = (-z[0, {token}]).argsort()[:5]
    print(layer, [model.tokenizer.decode([i]) for i in best])
print(model.generate({text}, max_new_tokens=8, temperature={temperature}, seed=0))
"""

HEADS = """
import numpy as np

import kerasseq

model = kerasseq.load_model({file})
ids = model.ids({text})[None]
with kerasseq.tracing.trace(model) as inside:
    model(ids)
for name, weights in inside.items():
    if name.endswith("alignment"):  # (1, heads, T, T)
        before = np.diagonal(weights[0], -1, axis1=1, axis2=2)
        print(name, "on the token before:", before.mean(axis=-1).round(2))
"""

SCORES = """
import keras
import numpy as np

import kerasseq

task, steps, items, width = {task}, {steps}, 8, 16
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
alphabet, _ = np.linalg.qr(rng.normal(size=(width, width)))


def retrieval(examples):
    # The keys are letters; query i is that of key i, or names its position.
    letters = np.tile(np.arange(width), (examples, 1))
    letters = rng.permuted(letters, axis=1)[:, :items]
    wanted = letters
    if task == "position":
        wanted = np.tile(np.arange(items), (examples, 1))
    codes = alphabet if task == "other" else np.eye(width)
    pair = codes[wanted], np.eye(width)[letters]
    return [2 * (x + 0.2 * rng.normal(size=x.shape)) for x in pair]


sizes = {"additive": (64, None), "concat": (64, None), "location": (None, items)}
for score in {scores}:
    units, longest = sizes.get(score, (None, None))
    layer = kerasseq.layers.AlignmentAttention(
        units, score=score, max_length=longest
    )
    s, h = keras.Input((items, width)), keras.Input((items, width))
    _, weights = layer(s, h, return_attention_scores=True)
    model = keras.Model([s, h], weights)
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    if steps:
        right = np.tile(np.arange(items), (64 * steps, 1))
        model.fit(retrieval(64 * steps), right, batch_size=64, verbose=0)
    found = model.predict(retrieval(512), verbose=0).argmax(-1)
    print(score, np.mean(found == np.arange(items)).round(2))
"""

CROSS = """
import kerasseq

model = kerasseq.load_model({file})
found = model.translate({source})
print(found.text)

with kerasseq.tracing.trace(model) as inside:
    model.generate({source})
for name, steps in inside.items():
    if name.endswith("cross_attention/alignment"):
        print(name, len(steps), "steps of", steps[0].shape)
"""

SLIDE = """
import keras
import numpy as np

import kerasseq

scores = np.array({scores})  # a row for each key, a column for each query
keys = scores[None] / {temperature}
queries = np.eye(scores.shape[1])[None]
layer = kerasseq.layers.LuongAttention("dot")
_, weights = layer(
    queries, keys, use_causal_mask={causal}, return_attention_scores=True
)
print(keras.ops.convert_to_numpy(weights)[0].T.round(2))
"""
