"""Train small models on a text, and draw what each character reads: four kinds of maps.

    python examples/attention_maps.py maps.png

Softmax attention, linear attention, Mamba and RWKV-4 in the same blocks. All four
outputs are sums over earlier steps, and a trace has their weights as `alignment`. Takes
some minutes on a laptop.
"""

import argparse

import kerasseq
import keras
import numpy as np
from kerasseq.tracing import plots

SENTENCE = "the key is a name, the key is"
WIDTH = 64


def attentions():
    """Returns the arguments of a GPT by the title of its map."""
    channels = range(0, 2 * WIDTH, 8)  # of Mamba, twice as many as features
    return {
        "softmax": {"attention": "multi_head", "position": "rope"},
        "linear attention": {
            "attention": kerasseq.layers.LinearAttention(2, WIDTH // 2, conv_kernel=4)
        },
        "Mamba": {"attention": kerasseq.layers.Mamba(alignment_channels=channels)},
        "RWKV-4": {
            "attention": kerasseq.layers.RWKV4TimeMix(
                alignment_channels=range(0, WIDTH, 4)
            )
        },
    }


def alignment(model, ids):
    """Returns the weights of the last block, `(T, T)`, as shares of each row.

    Weights are averaged over heads or channels, those of Mamba without their signs.
    """
    with kerasseq.tracing.trace(model) as inside:
        model(ids[None])
    last = [inside[key] for key in inside if key.endswith("/alignment")][-1]
    weights = np.abs(last[0]).mean(axis=0)
    return weights / weights.sum(axis=1, keepdims=True)


def main(arguments=None):
    """Trains the models, and writes the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="maps.png", help="figure to write")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args(arguments)
    text = kerasseq.datasets.python_reference()
    tokenizer = kerasseq.text.CharacterTokenizer().fit(text)
    ids, maps = tokenizer.encode(SENTENCE), {}
    for name, layer in attentions().items():
        keras.utils.set_random_seed(0)
        model = kerasseq.models.GPT(
            tokenizer,
            num_layers=2,
            num_heads=2,
            hidden_dim=WIDTH,
            **{"position": None, **layer},
        )
        model.compile(keras.optimizers.Adam(0.003, global_clipnorm=1.0))
        model.fit(
            text,
            sequence_length=64,
            batch_size=16,
            steps_per_epoch=options.steps,
            verbose=0,
        )
        print(f"{name}: {model.bits_per_token(text[-5000:]):.2f} bits per character")
        maps[name] = alignment(model, ids)
    figure = plots.plot_attention(
        np.stack(list(maps.values())),
        SENTENCE,
        SENTENCE,
        title="What each character (row) reads: weights of the last block",
        titles=list(maps),
        vmax=0.4,
    )
    figure.savefig(options.file, dpi=110)
    print(f"wrote {options.file}")


if __name__ == "__main__":
    main()
