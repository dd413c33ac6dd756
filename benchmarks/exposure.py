"""Exposure bias: accuracy of a decoder on its own predictions and on the targets.

Two models are trained on the same pairs for the same number of steps: one with teacher
forcing, one with scheduled sampling. Both are tested on held-out pairs in two ways: the
decoder receives the target tokens (teacher forced), or its own predictions (free
running). Figures are the percentage of positions with the right token, and of sequences
without an error.
"""


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--model", default="gru")
    parser.add_argument("--units", type=int, default=96)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--test-pairs", type=int, default=1000)
    parser.add_argument(
        "--data", default="numbers-de", help="name for datasets.generated_pairs"
    )
    parser.add_argument("--seeds", default="0,1,2")


def run(options):
    """Trains the models, and returns a table of accuracies."""
    from kerasseq import datasets, training

    schedules = {
        "teacher forcing": None,
        "scheduled sampling": training.ScheduledSampling(
            "inverse_sigmoid", k=max(1, options.steps / 8), lowest=0.1
        ),
    }
    table = []
    for seed in map(int, options.seeds.split(",")):
        count = options.pairs + options.test_pairs
        pairs = datasets.generated_pairs(options.data, count, seed=seed)
        train_pairs, held_out = (
            datasets.Pairs(*(texts[part] for texts in pairs))
            for part in (slice(options.test_pairs, None), slice(options.test_pairs))
        )
        for name, schedule in schedules.items():
            model = train(train_pairs, schedule, seed, options)
            row = {"seed": seed, "training": name, **evaluate(model, held_out)}
            table.append(row)
    task = f"{options.data} without attention"
    return {"task": task, "steps": options.steps, "table": table}


def train(pairs, schedule, seed, options):
    """Returns a model without attention trained on the pairs."""
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


def evaluate(model, pairs):
    """Returns the accuracies in percent, teacher forced and free running."""
    from kerasseq import training

    outputs = [t.text for t in model.translate(pairs.sources)]
    correct = total = 0
    for output, target in zip(outputs, pairs.targets, strict=True):
        correct += sum(a == b for a, b in zip(output, target, strict=False))
        correct += len(output) == len(target)  # the end token
        total += len(target) + 1
    _, accuracy = model.evaluate(pairs, verbose=0)
    return {
        "teacher forced": 100 * accuracy,
        "free running": 100 * correct / total,
        "whole sequences": training.exact_match(outputs, pairs.targets),
    }
