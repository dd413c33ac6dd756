# %% [markdown] title
# # Images as sequences: the Vision Transformer

# %% [markdown] goals
# After this tutorial you will be able to
#
# - cut an image into patches with one reshape and one transpose, and turn them into a
#   sequence of vectors;
# - train a Vision Transformer (ViT) on handwritten digits beside a simple baseline, and
#   follow its attention through all layers;
# - say what the model knows about the places of the patches, and show it by shuffling
#   them.

# %% [markdown] imports_text
# The digits and the baseline come from scikit-learn; nothing is downloaded.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import kerasseq

# %% [markdown] settings_text
# The settings: the number of images, the passes over the training images, and the sizes
# of the model.

# %% settings
num_images, epochs, batch_size = 1797, 7, 64
patch_size, hidden_dim, num_layers, num_heads = 2, 64, 3, 4

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    num_images, epochs, hidden_dim, num_layers = 300, 1, 8, 1

# %% [markdown] question
# ## The question
#
# A Transformer reads a sequence of vectors. A text is one, but an image is a grid of
# pixels. **How does an image become a sequence, and what is lost on the way?**
#
# To take each pixel as a token would be possible, but expensive: the cost of
# self-attention grows with the square of the length ([Self-attention by
# hand](09_self_attention.md)), and a photograph has $224 \times 224 = 50176$ pixels
# even when it is small. The Vision Transformer of 2020 cuts the image into square
# patches. With patches of 16 × 16 pixels the same photograph is a sequence of 196
# tokens.
#
# Our images are small: digits of 8 × 8 pixels with values from 0 to 16. One fifth is
# kept for the test. The training images are used five times, as they are and shifted
# by one pixel in four directions, so that the model sees more variety.

# %% data
images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))[:num_images]
images = images.reshape(-1, 8, 8, 1)[order].astype("float32")  # (B, H, W, C)
labels = labels[order]
num_test = len(images) // 5
x_test, y_test = images[:num_test], labels[:num_test]
x_plain, y_plain = images[num_test:], labels[num_test:]

padded = np.pad(x_plain, ((0, 0), (1, 1), (1, 1), (0, 0)))
corners = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
x_train = np.concatenate([padded[:, r : r + 8, c : c + 8] for r, c in corners])
y_train = np.tile(y_plain, len(corners))
print("training images:", x_train.shape, "  test images:", x_test.shape)

# %% [markdown] data_after
# The four axes are the image, its rows, its columns and its channels; gray images have
# one channel.

# %% [markdown] equation
# ## The equation
#
# An image has $H \times W$ pixels and $C$ channels, a patch $P \times P$ pixels. There
# are $N = HW / P^2$ patches. Flattened, the patch $n$ is a vector $x^n$ of $P^2 C$
# numbers. A matrix $E$ and a bias $b$ project it to the width $D$ of the model:
#
# $$
# z_0 = [\, x_{\mathrm{class}};\; x^1 E + b;\; \dots;\; x^N E + b \,] + E_{\mathrm{pos}}
# $$
#
# $x_{\mathrm{class}}$ is a learned vector, the class token. It plays the part of [CLS]
# in [BERT](11_bert.md): it stands for no patch, and its output is what the classifier
# reads. $E_{\mathrm{pos}}$ is a table with a learned vector for each of the $1 + N$
# positions. What follows is the encoder of [A Transformer](10_gpt.md) without a causal
# mask, and a dense layer on the output of the class token:
#
# $$
# z_l = \mathrm{Block}_l(z_{l-1}), \qquad
# y = W\, \mathrm{LayerNorm}(z_L)_0 + c
# $$
#
# Nothing else in the model knows that the tokens are parts of an image.

# %% [markdown] scratch_text
# The patches need no loop. A reshape splits the rows into $H / P$ groups of $P$ and the
# columns likewise; a transpose brings the two axes of the patch together; a second
# reshape flattens them.


# %% scratch tags=["scratch"]
def to_patches(images, P):
    """Cuts images (B, H, W, C) into patches (B, N, P P C), row by row."""
    B, H, W, C = images.shape
    x = ops.reshape(images, (B, H // P, P, W // P, P, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, H/P, W/P, P, P, C)
    return ops.reshape(x, (B, (H // P) * (W // P), P * P * C))


def to_images(patches, P, H, W):
    """The inverse: joins patches (B, N, P P C) to images (B, H, W, C)."""
    B, C = patches.shape[0], patches.shape[2] // P**2
    x = ops.reshape(patches, (B, H // P, W // P, P, P, C))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, H/P, P, W/P, P, C)
    return ops.reshape(x, (B, H, W, C))


def embed(images, P, E, b, x_class, E_pos):
    """z_0 of the equation, (B, 1 + N, D)."""
    z = ops.matmul(to_patches(images, P), E) + b
    B, _, D = z.shape
    first = ops.broadcast_to(x_class, (B, 1, D))
    return ops.concatenate([first, z], axis=1) + E_pos


# %% [markdown] scratch_after
# The same transpose leads back from patches to images, since it exchanges the two axes
# in the middle. Both directions together must give the image again.

# %% patches_check
patches = to_patches(x_test, patch_size)
again = ops.convert_to_numpy(to_images(patches, patch_size, 8, 8))
num_patches = int(patches.shape[1])
print("patches:", tuple(patches.shape), "  difference:", np.abs(again - x_test).max())

# %% [markdown] patches_check_after
# An image of 8 × 8 pixels is a sequence of {{ num_patches | integer }} vectors of four
# numbers. The figure shows one image and its sequence.

# %% sequence tags=["figure"]
figure = plt.figure(figsize=(7, 2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 4])
axis = left.subplots()
axis.imshow(x_test[0, :, :, 0], cmap="gray")
axis.set_xlabel("image")
axis.set_xticks(np.arange(patch_size, 8, patch_size) - 0.5, [])
axis.set_yticks(np.arange(patch_size, 8, patch_size) - 0.5, [])
axis.grid(color="C1")
axes = right.subplots(2, 8)
for n, axis in enumerate(axes.flat):
    part = ops.convert_to_numpy(patches[0, n]).reshape(patch_size, patch_size)
    axis.imshow(part, cmap="gray", vmin=0, vmax=16)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel(str(n + 1))
plt.close(figure)
figure

# %% [markdown] sequence_caption
# A digit with grid lines that cut it into 16 squares, and these squares side by side.
#
# The image on the left is read row by row; the sixteen patches on the right are the
# tokens that the model receives, in this order.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.PatchEmbedding` computes $z_0$. With its weights, our function must
# give the same.

# %% library_equal
layer = kerasseq.layers.PatchEmbedding(patch_size, hidden_dim)
z = layer(x_test)
weights = (layer.kernel, layer.bias, layer.token, layer.position_embeddings)
E, b, x_class, E_pos = map(ops.convert_to_tensor, weights)
E = ops.reshape(E, (-1, hidden_dim))  # (P P C, D)
by_hand = embed(x_test, patch_size, E, b, x_class, E_pos)
both = [ops.convert_to_numpy(each) for each in (z, by_hand)]
difference = float(np.abs(both[0] - both[1]).max())
print("z_0:", tuple(z.shape), f"  largest difference: {difference:.0e}")

# %% [markdown] library_equal_after
# `kerasseq.models.ViT` is this layer, the encoder and the classifier. The function
# `train` is used twice below: it builds a model and trains it with a learning rate that
# rises and then falls.


# %% training
def train(x, y):
    """Trains a Vision Transformer on images and labels."""
    keras.utils.set_random_seed(0)
    model = kerasseq.models.ViT(
        10,
        image_size=8,
        patch_size=patch_size,
        channels=1,
        num_layers=num_layers,
        num_heads=num_heads,
        hidden_dim=hidden_dim,
        value_range=(0, 16),
    )
    steps = epochs * -(-len(x) // batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(
        1e-4, steps, warmup_target=3e-3, warmup_steps=max(1, steps // 10)
    )
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=0.05, global_clipnorm=1.0)
    )
    model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0)
    return model


def accuracy(model, x):
    """Accuracy on the labels of the test images."""
    found = np.argmax(model.predict(x, batch_size=128, verbose=0), axis=-1)
    return float(np.mean(found == y_test))


model = train(x_train, y_train)
vit_accuracy = accuracy(model, x_test)

pixels = x_plain.reshape(len(x_plain), -1) / 16
logistic = LogisticRegression(max_iter=1000).fit(pixels, y_plain)
baseline = float(logistic.score(x_test.reshape(num_test, -1) / 16, y_test))
print(f"ViT {vit_accuracy:.3f}, logistic regression on the pixels {baseline:.3f}")

# %% [markdown] training_after
# The model classifies {{ vit_accuracy | percent }} of the test images correctly. Beside
# it stands logistic regression on the pixels, without shifted images, with
# {{ baseline | percent }}: on small images a linear model is a strong baseline, and no
# network should be reported without one.

# %% [markdown] inside
# ## Look inside
#
# To what does the class token attend? The weights of one layer are not enough: from the
# second layer on, a token is a mixture of patches. *Attention rollout* multiplies the
# weights of all layers, averaged over the heads, with the identity for the residual
# connection:
#
# $$
# R = \bar A_L \cdots \bar A_2 \bar A_1, \qquad
# \bar A_l = \tfrac12 \Bigl( \tfrac1{N_h} \sum_n A_l^n + I \Bigr)
# $$
#
# $A_l^n$ are the weights of head $n$ of $N_h$ in layer $l$, and $I$ is the identity.
# The row of the class token in $R$ says which share each patch has. `attention_map`
# with `layer=None` computes it.

# %% inside_rollout
shown = [int(np.flatnonzero(y_test == digit)[0]) for digit in (0, 1, 2, 3, 4, 7)]
rollout = model.attention_map(x_test[shown], layer=None)
print("rollout:", rollout.shape)
print("sum for each image:", *rollout.sum(axis=(1, 2)).round(3))

# %% [markdown] inside_rollout_after
# Each of these images has a grid of shares that sum to one, without the share of the
# class token itself.

# %% rollout_figure tags=["figure"]
figure, axes = plt.subplots(2, len(shown), figsize=(7, 2.6), layout="constrained")
for column, number in enumerate(shown):
    axes[0, column].imshow(x_test[number, :, :, 0], cmap="gray")
    drawn = axes[1, column].imshow(rollout[column], vmin=0, vmax=rollout.max())
axes[0, 0].set_ylabel("image")
axes[1, 0].set_ylabel("rollout")
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
figure.colorbar(drawn, ax=axes[1, :], label="share")
plt.close(figure)
figure

# %% [markdown] rollout_figure_caption
# Six digits above, and for each a grid of four by four colored squares below.
#
# Attention rollout of the class token. The brighter a square, the larger the share of
# this patch in what the classifier reads.

# %% [markdown] positions_text
# The table of positions starts with random vectors. Which relations has the training
# put into it? We compare each position with each other by the cosine of their vectors,
# and average over pairs of patches that touch with a side, and over all other pairs.

# %% positions
E_pos = ops.convert_to_numpy(model.patches.position_embeddings)[1:]  # (N, D)
unit = E_pos / np.linalg.norm(E_pos, axis=1, keepdims=True)
similarity = unit @ unit.T  # (N, N)
side = 8 // patch_size
place = np.stack(np.divmod(np.arange(side**2), side), axis=1)
distance = np.abs(place[:, None] - place[None]).sum(axis=2)
near = float(similarity[distance == 1].mean())
far = float(similarity[distance > 1].mean())
print(f"mean cosine: neighbors {near:.3f}, other pairs {far:.3f}")

# %% [markdown] positions_after
# Neighbors have a mean cosine of {{ near | number(2) }}, other pairs
# {{ far | number(2) }}. Whatever relation there is was learned: at the start the table
# held random numbers.

# %% similarity_figure tags=["figure"]
figure, axes = plt.subplots(4, 4, figsize=(4, 3.6), layout="constrained")
limit = float(np.abs(similarity[distance > 0]).max())
for n, axis in enumerate(axes.flat):
    drawn = axis.imshow(
        similarity[n].reshape(side, side), cmap="coolwarm", vmin=-limit, vmax=limit
    )
    axis.set_xticks([])
    axis.set_yticks([])
figure.colorbar(drawn, ax=axes, label="cosine")
plt.close(figure)
figure

# %% [markdown] similarity_figure_caption
# Sixteen small heat maps in a grid of four by four.
#
# The map in row $r$ and column $c$ compares the position of that patch with all
# positions; its own place has the cosine one. Red places have similar vectors, blue
# ones opposite vectors.

# %% [markdown] misconception
# ## A misconception
#
# > "A Vision Transformer relies on neighboring patches standing next to each other. If
# > the patches of all images are shuffled, nothing can be learned any more."
#
# It is true of a convolution, whose kernel covers neighboring pixels. We test it for
# the ViT: one permutation is drawn, and the patches of *all* images, for training and
# for test, are rearranged by it. A second model is trained on these images.

# %% experiment_data
permutation = np.random.default_rng(1).permutation(num_patches)


def shuffled(images):
    """Rearranges the patches of all images in the same way."""
    patches = to_patches(images, patch_size)
    patches = ops.take(patches, permutation, axis=1)
    return ops.convert_to_numpy(to_images(patches, patch_size, 8, 8))


print("order of the patches:", *permutation)

# %% [markdown] experiment
# The pictures look like noise to us. We measure three accuracies: trained and tested on
# intact images, trained and tested on shuffled ones, and trained on intact images but
# tested on shuffled ones.

# %% experiment_run
other = train(shuffled(x_train), y_train)
shuffled_accuracy = accuracy(other, shuffled(x_test))
mixed_accuracy = accuracy(model, shuffled(x_test))
print("training   test       accuracy")
print(f"intact     intact     {vit_accuracy:.3f}")
print(f"shuffled   shuffled   {shuffled_accuracy:.3f}")
print(f"intact     shuffled   {mixed_accuracy:.3f}")

result = vit_accuracy
result_name = "accuracy of the ViT on test digits"

# %% [markdown] experiment_after
# With shuffled images the second model reaches {{ shuffled_accuracy | percent }}, about
# as much as the first one on intact images, {{ vit_accuracy | percent }}. Only the
# change between training and test is harmful: {{ mixed_accuracy | percent }}.
#
# The reason is in the equation. Without $E_{\mathrm{pos}}$ the encoder treats its
# tokens as a set. Only the table tells the places apart, and it starts with random
# vectors that belong to no place. A fixed permutation gives the rows of the table other
# names and changes nothing else. The neighborhood of patches has to be learned from
# data. A convolution has it built in, and so it needs fewer images than a large ViT.

# %% samples tags=["figure"]
figure, axes = plt.subplots(2, len(shown), figsize=(7, 2.4), layout="constrained")
mixed = shuffled(x_test[shown])
for column, number in enumerate(shown):
    axes[0, column].imshow(x_test[number, :, :, 0], cmap="gray")
    axes[1, column].imshow(mixed[column, :, :, 0], cmap="gray")
axes[0, 0].set_ylabel("intact")
axes[1, 0].set_ylabel("shuffled")
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
plt.close(figure)
figure

# %% [markdown] samples_caption
# Six digits, and below each the same digit with its patches in another order.
#
# Above the intact images, below what the second model reads. All images are rearranged
# by the same permutation.

# %% [markdown] exercises
# ## Exercises
#
# 1. Set the table of positions to zero in the trained model. How large is the
#    difference between the outputs for intact and for shuffled images, and what happens
#    to the accuracy?
# 2. Cover one patch of an image after the other with zeros, and measure how much the
#    probability of the right digit falls. Does the order agree with the rollout?
# 3. How does the number of attention weights of a layer depend on the size of the
#    patches? Compute it for patches of 1, 2, 4 and 8 pixels of our digits, and for
#    patches of 16 pixels of a photograph of 224 × 224.

# %% [markdown] solution_1_text
# The first exercise: a model without positions.

# %% solution_1 tags=["solution"]
table = ops.convert_to_numpy(model.patches.position_embeddings)
model.patches.position_embeddings.assign(0 * table)
intact = model.predict(x_test, batch_size=128, verbose=0)
mixed = model.predict(shuffled(x_test), batch_size=128, verbose=0)
print(f"largest difference of the outputs: {np.abs(intact - mixed).max():.0e}")
print(f"accuracy without positions: {accuracy(model, x_test):.3f}")
model.patches.position_embeddings.assign(table)

# %% [markdown] solution_1_after
# The outputs are equal up to rounding: without positions the order of the patches does
# not exist for the model. The accuracy falls, since it was trained with positions.

# %% [markdown] solution_2_text
# The second exercise: one patch after the other is covered.

# %% solution_2 tags=["solution"]
number = shown[-1]
image, digit = x_test[number], int(y_test[number])
covered = np.tile(image, (num_patches, 1, 1, 1))
for n, (row, column) in enumerate(place * patch_size):
    covered[n, row : row + patch_size, column : column + patch_size] = 0


def probability(x):
    """Probability of the right digit for each image."""
    p = ops.softmax(model.predict(x, verbose=0), axis=-1)
    return ops.convert_to_numpy(p)[:, digit]


fall = probability(image[None])[0] - probability(covered)
ranks = [np.argsort(np.argsort(v)) for v in (fall, rollout[-1].ravel())]
print("fall of the probability:")
print(fall.reshape(side, side).round(2))
print(f"rank correlation with the rollout: {np.corrcoef(*ranks)[0, 1]:.2f}")

# %% [markdown] solution_2_after
# The two need not agree. The rollout says how much of a patch arrives in the output of
# the class token, and not whether it speaks for this digit or for another one. Covering
# a patch without ink changes nothing at all.

# %% [markdown] solution_3_text
# The third exercise: each token attends to each other, the class token included.

# %% solution_3 tags=["solution"]
for size, patch in ((8, 1), (8, 2), (8, 4), (8, 8), (224, 16)):
    tokens = 1 + (size // patch) ** 2
    print(f"image {size:3}, patch {patch:2}: {tokens:3} tokens, {tokens**2:6,} weights")

# %% [markdown] solution_3_after
# Half the side of a patch means four times as many tokens and about sixteen times as
# many weights for each head. With one patch for the whole image, nothing is left for
# the attention to do.

# %% [markdown] summary
# ## What we have seen
#
# - An image becomes a sequence by one reshape, one transpose and a projection; our
#   version and `PatchEmbedding` agree.
# - The ViT classified {{ vit_accuracy | percent }} of the test digits, logistic
#   regression {{ baseline | percent }}.
# - With a fixed permutation of the patches it reached
#   {{ shuffled_accuracy | percent }}; with a permutation at test time only,
#   {{ mixed_accuracy | percent }}. The places of the patches are known from the learned
#   table of positions alone.

# %% [markdown] questions
# ## Questions for the code
#
# - How good is the model with four patches? Change `patch_size` to 4.
# - What do the shifted images contribute? Replace `corners` by `[(1, 1)]`, and choose
#   five times as many epochs, so that the number of steps remains.
# - How good is logistic regression on the shuffled images? Pass `shuffled(x_plain)` and
#   `shuffled(x_test)` to it.

# %% [markdown] references
# ## References
#
# - A. Dosovitskiy et al.: *An Image is Worth 16x16 Words: Transformers for Image
#   Recognition at Scale*, 2020 (conference version 2021).
# - S. Abnar, W. Zuidema: *Quantifying Attention Flow in Transformers*, 2020 (rollout).
# - Slides A, B and C (Vision Transformer).
# - Lab *Vision and your own data* of the app (`kerasseq app`).
