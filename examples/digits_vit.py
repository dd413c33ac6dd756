"""Train a small Vision Transformer on digits, and plot its attention to the patches.

    python examples/digits_vit.py digits.png

Takes about two minutes on a laptop. The data are the 1797 images of 8 × 8 pixels in
scikit-learn; patches of 2 × 2 pixels give 16 tokens per image. Source: course slides A,
B, C.
"""

import argparse
import time

import kerasseq
import keras
import numpy as np
from kerasseq.tracing import plots
from sklearn.datasets import load_digits

SHIFTS = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]


def main(arguments=None):
    """Trains the model, evaluates it on held-out digits, and plots its attention."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="digits.png", help="figure to write")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--hidden-dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--images", type=int, default=1797, help="number of images")
    options = parser.parse_args(arguments)

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))[: options.images]
    images, labels = images.reshape(-1, 8, 8)[order], labels[order]
    held_out = len(images) // 5  # one fifth for the test
    test, train = slice(held_out), slice(held_out, None)

    # Augmentation: each training image, and its shifts by one pixel in four directions.
    augmented = np.concatenate([shifted(images[train], *by) for by in SHIFTS])
    targets = np.tile(labels[train], len(SHIFTS))

    keras.utils.set_random_seed(0)
    model = kerasseq.models.ViT(
        10,
        image_size=8,
        patch_size=2,
        channels=1,
        num_layers=options.layers,
        num_heads=4,
        hidden_dim=options.hidden_dim,
        dropout=0.1,
        value_range=(0, 16),
    )
    steps = options.epochs * -(-len(augmented) // 128)
    model.compile(
        keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(
                1e-4, steps, warmup_target=3e-3, warmup_steps=steps // 10
            ),
            weight_decay=0.05,
            global_clipnorm=1.0,
        )
    )
    start = time.process_time()
    model.fit(augmented, targets, batch_size=128, epochs=options.epochs, verbose=2)
    seconds = time.process_time() - start

    predicted = np.argmax(model.predict(images[test], verbose=0), axis=-1)
    accuracy = np.mean(predicted == labels[test])
    print(
        f"{accuracy:.1%} accuracy on {held_out} held-out digits, {seconds:.0f} s of CPU"
    )

    shown = slice(min(8, held_out))
    figure = plots.plot_patches(
        images[shown],
        model.attention_map(images[shown], layer=None),
        titles=[f"a {name}" for name in predicted[shown]],
        title="Attention rollout, percent of each patch",
    )
    figure.savefig(options.file, dpi=110)
    print(f"wrote {options.file}")


def shifted(images, down, right):
    """Shifts images by some pixels, and fills with black."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - down : 9 - down, 1 - right : 9 - right]


if __name__ == "__main__":
    main()
