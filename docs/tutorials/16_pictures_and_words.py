# %% [markdown] title
# # Pictures and words

# %% [markdown] goals
# After this tutorial you will be able to
#
# - cut a picture into patches and make tokens of them that stand beside words;
# - write the contrastive loss of pictures and captions, say why equal captions leave
#   its denominator, and find the caption of a picture that was never seen;
# - draw the mask of a model that writes captions, measure how many are exact beside
#   captions that need no model, and say what its attention shows and what it does not.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os
from collections import Counter

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# The settings: the side of a picture and of a patch in pixels, the network, its
# training in parts, and how many scenes are drawn for the tests. Of all combinations of
# color, shape and place a fifth is held out: training shows none of them.

# %% settings
size, patch_size = 24, 6
sizes = {"num_layers": 2, "num_heads": 4, "hidden_dim": 64, "max_sequence_length": 10}
parts, steps, batch_size, learning_rate = 3, 400, 32, 0.002
drawn, tested = 4000, 500
options = {"held_out": 0.2, "noise": 0.05}

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    sizes = {**sizes, "num_layers": 1, "num_heads": 1, "hidden_dim": 6}
    parts, steps, batch_size, drawn, tested = 1, 12, 5, 60, 4

# %% [markdown] question
# ## The question
#
# A Transformer reads vectors. A word becomes one because it has a row in a table, but a
# picture has no words, and two pictures of the same square have hardly a pixel in
# common. A caption says what is in a picture, and does not say where: no one has marked
# the pixels that are "red", or those that are a "cross". **How can one network read
# pictures and words, and find out from pairs alone which words belong to which
# pixels?**
#
# CLIP learned this from 400 million pictures. `kerasseq.datasets.scenes` asks the same
# question with pictures that are learned in minutes: one shape, with a size, a color
# and a place, and its caption.

# %% scenes
examples = kerasseq.datasets.scenes(4, seed=3, **options)
print(examples.images.shape, examples.images.dtype)
for text in examples.texts:
    print(text)

# %% [markdown] equation
# ## The equations
#
# **Tokens.** A picture is cut into $P$ patches. Patch $p$ is a row $x_p$ of its pixels,
# and a matrix $E$ projects it to the width of the model. A word $w$ at place $t$ has
# the row $W_w$ of a table. Both get their positions, and a vector $k$ that says of
# which kind they are:
#
# $$z_p = x_p E + b + E^{\text{pos}}_p + k_{\text{images}}, \qquad
# z_t = W_{w_t} + W^{\text{pos}}_t + k_{\text{texts}}$$
#
# From here on nothing distinguishes them: the same blocks read both, and what they
# compute is self-attention as in [Self-attention](09_self_attention.md). What is left
# to choose is which tokens may see each other, and the loss.
#
# **Matching.** If each kind sees itself alone, one encoder is two. The mean of its
# tokens, projected and scaled to length 1, is a vector $a_i$ of picture $i$ and $b_j$
# of caption $j$. With a learned temperature $e^{\tau}$ the scores are
# $s_{ij} = e^{\tau} a_i \cdot b_j$, and the loss asks for the right partner among all
# of the batch, both ways:
#
# $$L = -\frac{1}{2 B} \sum_i \Bigl( \ln \frac{e^{s_{ii}}}{\sum_{j \in N_i} e^{s_{ij}}}
# + \ln \frac{e^{s_{ii}}}{\sum_{j \in N_i} e^{s_{ji}}} \Bigr)$$
#
# $N_i$ has $i$ and all rows whose caption is another one than that of $i$.
#
# **Writing.** If the words come after the patches, token $q$ may attend to token $k$
# where
#
# $$M_{qk} = [\,k \le P\,] \;\lor\; [\,q > P,\; k \le q\,]$$
#
# Patches see each other; a word sees all patches, and the words before it. The loss is
# that of a language model, $-\sum_t \ln p(w_t \mid x, w_1 \dots w_{t-1})$.

# %% [markdown] scratch_text
# ## From scratch
#
# For the patches `reshape` splits both sides of the picture, and `transpose` exchanges
# axes, so that the pixels of a patch stand together. The rest are the equations.


# %% scratch tags=["scratch"]
def patches(x, size):
    B, H, W, C = x.shape
    x = ops.reshape(x, (B, H // size, size, W // size, size, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, size, size, C)
    return ops.reshape(x, (B, -1, size * size * C))


def picture_tokens(x, size, E, b, E_pos, k):
    return ops.matmul(patches(x, size), E) + b + E_pos + k


def word_tokens(ids, W, W_pos, k):
    return ops.take(W, ids, axis=0) + W_pos[: ids.shape[1]] + k


def contrastive_loss(s, N):
    s = np.where(N, s, -np.inf)
    right = np.diag(s)
    rows = np.log(np.exp(s).sum(axis=1)) - right  # the caption of a picture
    columns = np.log(np.exp(s).sum(axis=0)) - right  # the picture of a caption
    return (rows + columns).mean() / 2


def mask(P, T):
    q, k = np.ogrid[: P + T, : P + T]  # from 0, the equation counts from 1
    return (k < P) | ((q >= P) & (k <= q))


# %% [markdown] patches_text
# A picture as it is, and as the model gets it: sixteen patches, row by row.

# %% patches_figure tags=["figure"]
x = examples.images[1:2]
cut = ops.convert_to_numpy(patches(x, patch_size))[0]
P, gap = len(cut), patch_size + 1
row = np.zeros((patch_size, gap * P - 1, 4), "uint8")  # transparent between patches
for p in range(P):
    columns = slice(gap * p, gap * p + patch_size)
    row[:, columns, :3] = cut[p].reshape(patch_size, patch_size, 3)
    row[:, columns, 3] = 255
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 1.6), width_ratios=(1, 5), layout="constrained"
)
left.imshow(x[0], interpolation="none")
left.set_xlabel("picture")
for line in range(patch_size, size, patch_size):
    left.axhline(line - 0.5, color="#eeeeee", lw=0.5)
    left.axvline(line - 0.5, color="#eeeeee", lw=0.5)
right.imshow(row, interpolation="none")
right.set_xlabel("patches")
for axis in (left, right):
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)
plt.close(figure)
figure

# %% [markdown] patches_figure_caption
# A square picture with a colored shape on black, and beside it sixteen small squares in
# a row, some of which have a part of the shape.
#
# A scene, where it is cut, and its patches. Each is a row of 108 numbers for the model:
# three for each of its 36 pixels.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.models.Multimodal` has these tokens, one encoder, and one of both losses.
# The cell builds one that is not trained, takes its weights, and compares the tokens of
# pictures and words and the loss of a batch.

# %% library_equal
training = [
    kerasseq.datasets.scenes(steps * batch_size, seed=100 + part, **options)
    for part in range(parts)
]
tokenizer = kerasseq.text.WordTokenizer().fit(training[0].texts)


def build(head):
    keras.utils.set_random_seed(0)
    model = kerasseq.models.Multimodal(
        tokenizer, image_size=size, patch_size=patch_size, head=head, **sizes
    )
    warm_up = parts * steps // 8
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        parts * steps - warm_up,
        warmup_target=learning_rate,
        warmup_steps=warm_up,
    )
    model.compile(
        keras.optimizers.AdamW(
            schedule, weight_decay=0.01, beta_2=0.98, global_clipnorm=1.0
        )
    )
    return model


matcher = build("contrastive")
batch = training[0][:100]
B = len(batch)
inputs = matcher.encode(batch)
x, ids = inputs["images"], np.maximum(inputs["ids"], 0)

layer = {each.name: each for each in matcher.layers}
E = ops.reshape(layer["patches"].kernel, (-1, sizes["hidden_dim"]))
b, E_pos = layer["patches"].bias, layer["patches"].position_embeddings
W, W_pos = layer["embedding"].embeddings, layer["position"].position_embeddings
k_images, k_texts = layer["images_vector"].vector, layer["texts_vector"].vector

z_images = layer["images_vector"](layer["patches"](x))
z_texts = layer["embedding"](ids)
z_texts = layer["texts_vector"](z_texts + layer["position"](z_texts))
pairs = {
    "patches": (picture_tokens(x, patch_size, E, b, E_pos, k_images), z_images),
    "words": (word_tokens(ids, W, W_pos, k_texts), z_texts),
}
for kind, both in pairs.items():
    one, other = map(ops.convert_to_numpy, both)
    print(f"{kind:8}{one.shape}, largest difference {np.abs(one - other).max():.0e}")

s = ops.convert_to_numpy(matcher(inputs))[:, 0]
texts = np.array(batch.texts)
own = np.eye(B, dtype=bool)
equal = (texts[:, None] == texts) & ~own
by_hand = contrastive_loss(s, ~equal)
loss = matcher.evaluate(batch, batch_size=B, verbose=0)
print(f"loss by hand {by_hand:.5f}, kerasseq {loss:.5f}, ln B {np.log(B):.5f}")

pairs_of_equal = int(equal.sum()) // 2
kept = contrastive_loss(s, np.ones_like(own))
print(f"{pairs_of_equal} pairs of equal captions; with them below: {kept:.5f}")

# %% [markdown] equal_text
# Two pictures of a batch may have one caption: here this is so for
# {{ pairs_of_equal | integer }} pairs. Then $b_i = b_j$, and the two scores are the
# same number. If both stood in the denominator, the right caption could have a
# probability of a half at most, however good the model is, and the gradient would push
# each of the two pictures away from the caption that is true of it. So rows with an
# equal caption are no negatives, and leave the sum.

# %% [markdown] matching_text
# ## Which caption belongs to which picture
#
# Now the model learns, from {{ scenes_seen | integer }} scenes. The test has one
# scene for each of the captions that training may show, with other pixels. For each
# picture we count how many captions are nearer than its own, and the same for each
# caption and the pictures.


# %% matching
def learn(model):
    losses = []
    for part in training:
        fitted = model.fit(part, batch_size=batch_size, verbose=0)
        losses.append(fitted.history["loss"][-1])
    return losses


def one_for_each_caption(data):
    first = {text: n for n, text in reversed([*enumerate(data.texts)])}
    return data.take(sorted(first.values()))


def nearer(cosines, right):
    """How many columns are nearer than the right one of each row."""
    own = cosines[np.arange(len(right)), right][:, None]
    return (cosines >= own).sum(axis=1) - 1


losses = learn(matcher)
scenes_seen = parts * steps * batch_size
shown = one_for_each_caption(kerasseq.datasets.scenes(drawn, seed=1, **options))
captions = len(shown)
cosines = matcher.embed_images(shown.images) @ matcher.embed_texts(shown.texts).T
found = {}
for name, each in (
    ("caption of a picture", cosines),
    ("picture of a caption", cosines.T),
):
    ranks = nearer(each, np.arange(captions))
    found[name] = float(np.mean(ranks == 0))
    print(f"{name}: nearest {found[name]:.3f}", end=", ")
    print(f"among the 5 nearest {np.mean(ranks < 5):.3f}")
right_caption, right_picture = found.values()
chance = 1 / captions
print(f"by chance {chance:.4f} of {captions} captions; losses", np.round(losses, 2))

# %% [markdown] matching_after
# Of {{ captions | integer }} captions the right one is the nearest to
# {{ right_caption | percent }} of the pictures, and the right picture to
# {{ right_picture | percent }} of the captions; by chance it would be
# {{ chance | percent }}. Where it is not the nearest, it is one of the five nearest. No
# pixel was ever marked.

# %% [markdown] words_text
# Which words has it learned? We change one thing in each caption, a word or the place,
# and compare the cosines of the picture with the caption and with the changed one.

# %% words
rng = np.random.default_rng(0)
told = {"size": 1, "color": 2, "shape": 3, "place": 4}  # parts of a caption


def changed(text, n):
    words = text.split(" ", 4)
    others = {other.split(" ", 4)[n] for other in shown.texts} - {words[n]}
    words[n] = str(rng.choice(sorted(others)))
    return " ".join(words)


a = matcher.embed_images(shown.images)
true = (a * matcher.embed_texts(shown.texts)).sum(axis=1)
print(f"{shown.texts[0]}: cosine {true[0]:.2f}; mean of all {true.mean():.2f}")
better = {}
for name, n in told.items():
    others = [changed(text, n) for text in shown.texts]
    false = (a * matcher.embed_texts(others)).sum(axis=1)
    better[name] = float(np.mean(true > false))
    print(f"{name:6}{others[0]}: {false[0]:.2f}; mean {false.mean():.2f}", end=", ")
    print(f"the true one is nearer in {better[name]:.3f}")
size_better, color_better, shape_better, place_better = better.values()

# %% [markdown] words_after
# The cosine is one number for the whole caption, and one wrong word lowers it. The true
# caption is nearer than one with another size in {{ size_better | percent }} of the
# pictures, with another color in {{ color_better | percent }}, another place in
# {{ place_better | percent }}, another shape in {{ shape_better | percent }}. With
# another shape the mean cosine falls least: in a few pixels a small circle is much like
# a small square. So most mistakes of the retrieval must be about shapes.

# %% [markdown] writing_text
# ## A model that writes captions
#
# For the second model the words come after the patches. The next figure is the mask of
# the equation, for the sixteen patches and a caption with the start before it. A row is
# a token that reads, and the colored tokens of the row are those that it sees.

# %% mask_figure tags=["figure"]
words = ["start", *shown.texts[0].split()]
allowed = mask(P, len(words))
figure, axis = plt.subplots(figsize=(4.6, 4), layout="constrained")
axis.imshow(np.where(allowed, 1.0, np.nan), interpolation="none", vmin=0, vmax=1.6)
axis.axhline(P - 0.5, color="#666666", lw=1)
axis.axvline(P - 0.5, color="#666666", lw=1)
axis.set_yticks([P / 2 - 0.5, *range(P, P + len(words))], ["patches", *words])
axis.set_xticks([P / 2 - 0.5, P + len(words) / 2 - 0.5], ["patches", "words"])
axis.set_xlabel("is seen")
plt.close(figure)
figure

# %% [markdown] mask_figure_caption
# A square that is colored in its left part, in all rows, and in a triangle at the lower
# right.
#
# Which token sees which: all see the patches, and a word sees itself and the words
# before it. No patch sees a word.

# %% [markdown] same_mask
# So pictures are read as in a Vision Transformer, and captions are written as in GPT,
# by the same blocks. `describe` starts with the patches and writes word after word,
# each time the most probable one.

# %% writing
writer = build("caption")
losses = learn(writer)
written = writer.describe(shown.images)
frequent = Counter(training[0].texts).most_common(1)[0][0]


def nearest_picture(images):
    """The captions of the nearest pictures of the training, by pixels."""
    learned = training[-1]
    x, y = (
        each.reshape(len(each), -1).astype("float32") / 255
        for each in (images, learned.images)
    )
    distances = (y**2).sum(axis=1) - 2 * x @ y.T  # without a part that is the same
    return [learned.texts[n] for n in distances.argmin(axis=1)]


def exact(texts, truths):
    return float(np.mean([a == b for a, b in zip(texts, truths, strict=True)]))


for text, truth in zip(written[:3], shown.texts, strict=False):
    print(f"{text} (true: {truth})")
scores = {
    "the model": exact(written, shown.texts),
    "the nearest picture": exact(nearest_picture(shown.images), shown.texts),
    "the most frequent caption": exact([frequent] * captions, shown.texts),
}
for name, score in scores.items():
    print(f"exact captions of {name:26} {score:.3f}")
written_right, nearest_right, frequent_right = scores.values()
parts_right = {}
for name, n in told.items():
    both = zip(written, shown.texts, strict=True)
    same = [[text.split(" ", 4)[n:][:1] for text in pair] for pair in both]
    parts_right[name] = float(np.mean([one == other for one, other in same]))
    print(f"{name} right {parts_right[name]:.3f}", end="; ")
size_right, color_right, shape_right, place_right = parts_right.values()
print("losses", np.round(losses, 2))

# %% [markdown] writing_after
# {{ written_right | percent }} of the captions are exact, and so are all of their
# parts. This looks perfect, but a number needs its comparison. A caption that is always
# the same is right in {{ frequent_right | percent }}; that of the nearest of
# {{ (steps * batch_size) | integer }} pictures of the training, pixel by pixel, in
# {{ nearest_right | percent }}. With so many pictures of so few captions there is
# nearly always one with the same shape at the same pixels, and to copy its caption
# takes no model. The experiment below asks for more.

# %% [markdown] inside
# ## Look inside
#
# Where does the model look while it writes a word? The token before a word predicts it:
# the row of "red" writes "square". So the weights for a word are in the row of the
# token before it. We take the mean over the heads, and the part of its row that goes to
# the patches. The patches that the shape touches are known; of a map without any
# preference they get their share of the picture.

# %% inside_maps
inputs = writer.encode(shown)
with kerasseq.tracing.trace(writer) as inside:
    writer(inputs)
layers = sizes["num_layers"]
maps = [
    inside[f"block_{n}/self_attention/alignment"].mean(axis=1)[:, P:, :P]
    for n in range(layers)
]  # (scenes, words, patches) of each layer
least = 1e-9  # padding attends to nothing
maps = [each / np.maximum(each.sum(axis=2, keepdims=True), least) for each in maps]

longest = int((inputs["ids"] >= 0).sum(axis=1).argmax())  # has no padding
its_mask = inside["block_0/self_attention/mask"][longest, 0]
print(
    "the mask of kerasseq is ours:",
    bool((its_mask == mask(P, len(its_mask) - P)).all()),
)


def touched(boxes):
    """The patches `(scenes, patches)` that a box touches."""
    first_column, first_row, column, row = boxes.T[..., None]
    start = np.arange(0, size, patch_size)
    columns = (start < column) & (start + patch_size > first_column)
    rows = (start < row) & (start + patch_size > first_row)
    return (rows[:, :, None] & columns[:, None]).reshape(len(boxes), -1)


on_shape = touched(shown.boxes[:, 0])
uniform = float(on_shape.mean())
print(f"a uniform map: {uniform:.3f} of its weight on the shape")
at = {"size": 1, "color": 2, "shape": 3, "place": 6}  # "at the top": word 6 is "top"
shares = {}
for name, t in at.items():
    line = []
    for n, layer in enumerate(maps):
        shares[name] = float((layer[:, t] * on_shape).sum(axis=1).mean())
        brightest = on_shape[np.arange(captions), layer[:, t].argmax(axis=1)]
        line.append(f"layer {n + 1}: {shares[name]:.3f}, brightest patch on the shape ")
        line[-1] += f"in {brightest.mean():.3f}"
    print(f"{name:6}", "; ".join(line))
size_share, color_share, shape_share, place_share = shares.values()  # last layer

# %% attention_figure tags=["figure"]
gap, drawings = size + 3, [(n, layer) for n in range(2) for layer in range(layers)]
pictures = np.zeros((gap * len(drawings) - 3, size, 4), "uint8")
grid = np.full((gap * len(drawings) - 3, gap * len(at) - 3), np.nan)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(6, 4.4), width_ratios=(size, grid.shape[1]), layout="constrained"
)
for row, (n, layer) in enumerate(drawings):
    y = slice(gap * row, gap * row + size)
    if layer == 0:
        image = shown.images[n]
        pictures[y, :, :3] = image * (image > 60)  # noise would make the file large
        pictures[y, :, 3] = 255
    x0, y0, x1, y1 = shown.boxes[n, 0] - 0.5
    for column, t in enumerate(at.values()):
        square = maps[layer][n, t].reshape(size // patch_size, -1)
        square = square.repeat(patch_size, axis=0).repeat(patch_size, axis=1)
        grid[y, gap * column : gap * column + size] = square
        x = gap * column + np.array([x0, x1, x1, x0, x0])
        right.plot(x, gap * row + np.array([y0, y0, y1, y1, y0]), color="#eeeeee", lw=1)
left.imshow(pictures, interpolation="none")
right.imshow(grid, interpolation="none", vmin=0)
left.set_xticks([size / 2], ["picture"])
left.set_yticks([])
middles = gap * np.arange(len(at)) + size / 2
right.set_xticks(middles, ["size", "color", "shape", "place"])
middles = gap * np.arange(len(drawings)) + size / 2
right.set_yticks(middles, ["layer 1", "layer 2"][:layers] * 2)
for axis in (left, right):
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
plt.close(figure)
figure

# %% [markdown] attention_figure_caption
# Two pictures with a shape, and for each two rows of four maps of sixteen squares, with
# the outline of the shape. In the upper row of each the squares at the shape are
# bright, in the lower row they differ less.
#
# Attention of both layers to the patches, mean over the heads, for the words of size,
# color, shape and place. The brighter a square, the larger its weight; the line is the
# box of the shape.

# %% [markdown] attention_after
# In the first layer most of the weight goes to the shape, for each of the words. In the
# last one {{ color_share | percent }} of the weight for the color is on patches that
# the shape touches, {{ shape_share | percent }} for the shape,
# {{ size_share | percent }} for the size and {{ place_share | percent }} for the place;
# a uniform map has {{ uniform | percent }} there. That is more than nothing, and
# little.

# %% [markdown] misconception
# ## A misconception
#
# > "Where the attention of a word is brightest, there the model has read the word."
#
# The maps say which tokens were mixed in one layer, and not what was in them. In the
# first layer patches have read each other, so that a patch with nothing but noise can
# have the color of the shape. We test the sentence by force:
# `kerasseq.tracing.intervene` sets the weights of the words for some patches to zero,
# and the others are scaled to the same sum. The patches go on reading each other. Does
# the model still name the color?


# %% cut
def colors_right(hidden, cut_layers):
    """Share of right colors if words cannot attend to hidden patches in some layers."""

    def cut(weights, step):
        weights = weights.copy()  # (scenes, heads, queries, keys)
        weights[:, :, P:, :P] *= ~hidden[:, None, None]
        return weights / np.maximum(weights.sum(axis=-1, keepdims=True), least)

    keys = [f"block_{n}/self_attention/alignment" for n in cut_layers]
    with kerasseq.tracing.intervene(writer, dict.fromkeys(keys, cut)):
        logits = ops.convert_to_numpy(writer(inputs))
    color = told["color"]  # its row predicts it, and the ids begin with the start
    return float(
        np.mean(logits[:, color].argmax(axis=1) == inputs["ids"][:, color + 1])
    )


right = {
    "the words see all patches": colors_right(on_shape, []),
    "in the last layer not the shape": colors_right(on_shape, [layers - 1]),
    "in the last layer only the shape": colors_right(~on_shape, [layers - 1]),
    "in no layer the shape": colors_right(on_shape, range(layers)),
    "in all layers only the shape": colors_right(~on_shape, range(layers)),
}
for name, share in right.items():
    print(f"{name:33} {share:.3f} of the colors right")
see_all, not_last, only_last, not_any, only_any = right.values()

# %% [markdown] cut_after
# In the last layer the words can do without the shape: {{ not_last | percent }} of the
# colors are right if it is cut there, {{ see_all | percent }} if nothing is. So the
# bright patches of the last layer are not where the color was read. If the words attend
# to the shape in no layer, {{ not_any | percent }} are right, where one of six would be
# chance. No word has seen a colored pixel then: the color came from other patches,
# which had read the shape in the first layer. The cut is new for the model, and the
# share might be higher after training with it. A map shows where weights are. To find
# out where something comes from, one must change it.

# %% [markdown] experiment
# ## The experiment
#
# Has the model learned what "red" and "cross" and "at the top" mean, or has it learned
# {{ captions | integer }} captions by heart? A fifth of the combinations of color,
# shape and place was held out. Training has shown each color, shape and place, and
# every two of them together, but never these three. Now the models get
# {{ tested | integer }} pictures of such combinations, and as many of the others. The
# captions to choose from are all {{ all_captions | integer }} that exist.


# %% unseen
def scenes(count, **more):
    return kerasseq.datasets.scenes(count, seed=2, **options, **more)


tests = {"shown": scenes(tested), "never shown": scenes(tested, unseen=True)}
every = {*shown.texts, *scenes(drawn, unseen=True).texts}
every = sorted(every.union(*(data.texts for data in tests.values())))
b = matcher.embed_texts(every)
of = {}
for name, data in tests.items():
    right = np.array([every.index(text) for text in data.texts])
    ranks = nearer(matcher.embed_images(data.images) @ b.T, right)
    of[name] = (
        float(np.mean(ranks == 0)),
        exact(writer.describe(data.images), data.texts),
        exact(nearest_picture(data.images), data.texts),
    )
    print(f"{name:12} nearest caption right {of[name][0]:.3f}", end=", ")
    print(f"written {of[name][1]:.3f}, nearest picture {of[name][2]:.3f}")
all_captions = len(every)
shown_matched, shown_written, shown_nearest = of["shown"]
unseen_matched, unseen_written, unseen_nearest = of["never shown"]
result, result_name = unseen_written, "exact captions of what training never showed"

# %% [markdown] unseen_after
# The first model finds the caption of {{ unseen_matched | percent }} of the pictures
# whose combination was never shown, and of {{ shown_matched | percent }} of the others:
# nearly no difference. The second writes {{ unseen_written | percent }} exactly, and
# {{ shown_written | percent }} of the others. The nearest picture, which was nearly as
# good as the model, is right in {{ shown_nearest | percent }} of the others and in
# {{ unseen_nearest | percent }} of these: it can only copy captions that exist, and
# none of them is right. Both models put words together.
#
# What this does not say: a word that was never shown has no vector, and here every two
# of the three had been seen together. How few combinations are enough was not tried
# here.

# %% [markdown] exercises
# ## Exercises
#
# 1. What is the loss of the batch if all vectors are the same? And what is the least
#    loss of a perfect model if equal captions stay in the denominator?
# 2. Does the first model read the order of the words? Shuffle the words of each caption
#    and find the caption of a picture again. Why could the training do without it?
# 3. How many tokens are a picture and a caption of nine tokens together, and how many
#    pairs does the mask allow, with patches of 2, 3, 4, 6, 8 and 12 pixels?

# %% solution_loss tags=["solution"]
same = np.ones((B, B))
print(f"one vector for all: {contrastive_loss(same, ~equal):.4f}", end=", ")
print(f"mean of ln |N_i|: {np.log((~equal).sum(axis=1)).mean():.4f}")
partners = (equal | own).sum(axis=1)  # rows with the caption of row i
print(f"perfect, equal captions kept: {np.log(partners).mean():.4f}", end=", ")
perfect = np.where(equal | own, 50.0, 0.0)
print(f"computed {contrastive_loss(perfect, np.ones_like(own)):.4f}", end=", ")
print(f"and left out {contrastive_loss(perfect, ~equal):.4f}")

# %% [markdown] solution_loss_after
# With one vector for all, row $i$ has the loss $\ln |N_i|$, which is $\ln B$ where no
# caption is like its own. A perfect model gives all captions that are equal to the
# right one the same score as the right one: if they stay in the denominator, the loss
# cannot fall below the mean of the logarithm of their number, and the model is punished
# for being right. Left out, it can fall to 0.

# %% solution_order tags=["solution"]
mixed = [" ".join(rng.permutation(text.split())) for text in shown.texts]
cosines = a @ matcher.embed_texts(mixed).T
print(mixed[0])
mixed_right = float(np.mean(nearer(cosines, np.arange(captions)) == 0))
print(f"right caption with its words in order {right_caption:.3f}", end=", ")
print(f"shuffled {mixed_right:.3f}, by chance {chance:.3f}")

# %% [markdown] solution_order_after
# With shuffled words the caption is still found for {{ mixed_right | percent }} of the
# pictures, so the model reads mostly which words there are. In these captions each word
# has one meaning wherever it stands, and no two captions have the same words in another
# order; nothing in the loss asks for more. That of two shapes does: "a red square left
# of a blue cross" and "a blue cross left of a red square" have the same words.

# %% solution_patches tags=["solution"]
for side in (2, 3, 4, 6, 8, 12):
    count = (size // side) ** 2
    allowed = mask(count, 9)
    print(f"patches of {side:2}: {count + 9:3} tokens", end=", ")
    print(f"{allowed.sum():6,} of {allowed.size:6,} pairs")

# %% [markdown] solution_patches_after
# With half the side there are four times the patches, and nearly sixteen times the
# pairs: this is the cost of self-attention. Large patches are cheap, but then a shape
# shares its token with all that is around it, and one projection must tell all of these
# mixtures apart. In small ones a shape has several tokens, and the blocks must join
# them.

# %% [markdown] summary
# ## What we have seen
#
# - A picture is a row of patches, made by `reshape` and `transpose`; with positions and
#   a vector for the kind, patches and words go through the same blocks.
# - The contrastive loss by hand is that of `Multimodal`; equal captions leave its
#   denominator, since they are right as well. Among {{ captions | integer }} captions
#   the right one is the nearest in {{ right_caption | percent }}.
# - With a mask by which words see all patches and earlier words, the same encoder
#   writes captions: {{ written_right | percent }} exactly. The nearest picture reaches
#   {{ nearest_right | percent }}, so this alone shows little.
# - Of combinations that training never showed, {{ unseen_written | percent }} of the
#   captions are exact; the nearest picture has {{ unseen_nearest | percent }}.
# - Attention shows where weights are: with the shape cut from the last layer,
#   {{ not_last | percent }} of the colors are still right.

# %% [markdown] questions
# ## Questions for the code
#
# - How many captions are still exact with `objects=2`, where "left of" must be read
#   from two shapes? What must change in the settings?
# - What does `loss="sigmoid"` of `Multimodal` change, and what would happen to its loss
#   if equal captions were negatives?
# - Do captions in French need other settings? Write `language="fr"` in the options.
# - The other way round: `head="draw"` draws a picture from a caption ([Any data as
#   tokens](../multimodal.md#text-to-image)).

# %% [markdown] references
# ## References
#
# - O. Vinyals, A. Toshev, S. Bengio, D. Erhan: *Show and Tell: A Neural Image Caption
#   Generator*, 2015.
# - A. Dosovitskiy et al.: *An Image is Worth 16x16 Words*, 2021 (patches as tokens).
# - A. Radford et al.: *Learning Transferable Visual Models From Natural Language
#   Supervision*, 2021 (CLIP); X. Zhai et al.: *Sigmoid Loss for Language Image
#   Pre-Training*, 2023 (SigLIP).
# - B. Mustafa et al.: *Multimodal Contrastive Learning with LIMoE*, 2022 (one encoder
#   for patches and words).
# - M. Yuksekgonul et al.: *When and Why Vision-Language Models Behave like
#   Bags-of-Words*, 2023.
# - S. Jain, B. C. Wallace: *Attention is not Explanation*, 2019.
# - Slides A (any data as tokens, MERLOT, VATT, LIMoE). Guide [Any data as
#   tokens](../multimodal.md).
