"""Exposure bias: how much worse a decoder is that reads its own words.

Two models learn the same pairs for as many steps: one by teacher forcing, one by
scheduled sampling. Each is tested in two ways on pairs that it never saw: fed with the
right beginning, and fed with what it has said itself. Figures are the share of tokens
at their place that are right, and of whole sequences, in percent.
"""


def add_arguments(parser):
    """What to train, and how long."""
    parser.add_argument("--model", default="gru")
    parser.add_argument("--units", type=int, default=96)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--tested", type=int, default=1000)
    parser.add_argument("--data", default="numbers-de", help="pairs of the catalogue")
    parser.add_argument("--seeds", default="0,1,2")


def run(options):
    """Train the models, and test them."""
    from kerasseq import datasets, training

    schedules = {
        "teacher forcing": None,
        "scheduled sampling": training.ScheduledSampling(
            "inverse_sigmoid", k=max(1, options.steps / 8), lowest=0.1
        ),
    }
    table = []
    for seed in map(int, options.seeds.split(",")):
        count = options.pairs + options.tested
        pairs = datasets.generated_pairs(options.data, count, seed=seed)
        learned, held_out = (
            datasets.Pairs(*(texts[part] for texts in pairs))
            for part in (slice(options.tested, None), slice(options.tested))
        )
        for name, schedule in schedules.items():
            model = train(learned, schedule, seed, options)
            table.append({"seed": seed, "trained by": name, **test(model, held_out)})
    task = f"{options.data} without attention"
    return {"task": task, "steps": options.steps, "table": table}


def train(pairs, schedule, seed, options):
    """A model without attention that has seen the pairs."""
    import keras

    from kerasseq import models, text

    keras.utils.set_random_seed(seed)
    tokenizers = [text.CharacterTokenizer().fit(texts) for texts in pairs]
    model = models.Seq2Seq(
        options.model,
        *tokenizers,
        attention=None,
        units=options.units,
        scheduled_sampling=schedule,
    )
    rate = keras.optimizers.schedules.CosineDecay(4e-3, options.steps, alpha=0.01)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    model.fit(pairs, steps_per_epoch=options.steps, epochs=1, verbose=0)
    return model


def test(model, pairs):
    """Percent right, fed with the truth and fed with itself."""
    from kerasseq import training

    said = [t.text for t in model.translate(pairs.sources)]
    right = total = 0
    for text, wanted in zip(said, pairs.targets, strict=True):
        right += sum(a == b for a, b in zip(text, wanted, strict=False))
        right += len(text) == len(wanted)  # the end, which is a token
        total += len(wanted) + 1
    _, accuracy = model.evaluate(pairs, verbose=0)
    return {
        "fed with truth": 100 * accuracy,
        "fed with itself": 100 * right / total,
        "whole sequences": training.exact_match(said, pairs.targets),
    }
