"""Translate dates of eight languages to ISO 8601, and plot what was attended to.

    python examples/translate_dates.py alignments.png

"mercredi 17 décembre 1986" becomes "1986-12-17": the order changes, which the alignment
shows. Takes about half a minute on a laptop. Source: Bahdanau et al. 2015; course
slides A, C.
"""

import argparse

import kerasseq
import keras
from kerasseq import datasets, training
from kerasseq.text import CharacterTokenizer
from kerasseq.tracing import plots


def main(arguments=None):
    """Trains the model, evaluates it on other dates, and plots alignments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="alignments.png", help="figure")
    parser.add_argument("--pairs", type=int, default=20_000, help="number of dates")
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--units", type=int, default=64)
    options = parser.parse_args(arguments)

    train, test = datasets.split(datasets.dates(options.pairs), 0.02)
    keras.utils.set_random_seed(0)
    model = kerasseq.models.Seq2Seq(
        "gru",
        CharacterTokenizer().fit("".join(train.sources)),
        CharacterTokenizer().fit("".join(train.targets)),
        attention="bahdanau",
        units=options.units,
    )
    model.compile(keras.optimizers.Adam(8e-3, global_clipnorm=1.0))
    model.fit(train, steps_per_epoch=options.steps, batch_size=64, verbose=2)

    found = model.translate(test.sources, max_length=12)
    right = training.exact_match([t.text for t in found], test.targets)
    print(f"{right:.1f} % of {len(found)} other dates are translated without a mistake")
    for source, translation in list(zip(test.sources, found, strict=True))[:3]:
        print(f"  {source} -> {translation}")
    plots.plot_alignments(found[:4]).savefig(options.file, dpi=110)
    print(f"wrote {options.file}")


if __name__ == "__main__":
    main()
