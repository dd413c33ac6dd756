"""Trains the writers of the lab Votes: `python apps/prepare_votes.py votes.npz`.

Three GPTs learn to write eight digits, of which 30, 50 and 70 % are even, 400 steps of
64. The second is then trained by GRPO on the share of even digits, 400 steps of 16
answers to each of four prompts, in the three ways of the lab. It takes some minutes.
"""

import argparse
import pathlib

import numpy as np

STEPS, BATCH, EVERY = 400, 64, 10
GRPO = {
    "unscaled": {"scale_rewards": False},
    "no_ratio": {"scale_rewards": False, "use_bias_correction_kl": False},
    "scaled": {"scale_rewards": True},
}


def main() -> None:
    """Trains, and writes the weights as half floats, and the curves."""
    from parts import voting

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    arrays = {}
    for name, share in voting.SHARES.items():
        model = trained(voting, share, options.steps)
        found = voting.even("".join(voting.answers(model, 500, 1))) / 4000
        print(f"{name}: {found:.3f} of the digits are even", flush=True)
        for n, weight in enumerate(model.get_weights()):
            arrays[f"{name}_{n}"] = weight.astype("float16")
        if name == voting.BASE:
            start = model.get_weights()
    for kind, how in GRPO.items():
        found = traced(voting, start, options.steps, how)
        print(f"{kind}: {found['even'][-1]:.3f}, KL {found['kl'][-1]:.3f}", flush=True)
        arrays |= {f"{kind}_{key}": values for key, values in found.items()}
    np.savez_compressed(options.file, **arrays)


def trained(voting, share, steps):
    """Returns a GPT that writes this share of even digits."""
    import keras

    keras.utils.set_random_seed(0)
    model = voting.writer()
    model.compile(keras.optimizers.Adam(3e-3, global_clipnorm=1.0))
    rng = np.random.default_rng(0)
    shape = steps * BATCH, voting.DIGITS
    digits = 2 * rng.integers(5, size=shape) + (rng.random(shape) > share)
    rows = [voting.PROMPT + "".join(map(str, row)) for row in digits.tolist()]
    ids = np.stack(model.tokenizer.encode(rows))
    model.fit(ids[:, :-1], ids[:, 1:], batch_size=BATCH, verbose=0)
    return model


def traced(voting, start, steps, how):
    """Returns share of even digits and KL while GRPO trains, every 10 steps.

    The KL is computed from whole distributions: the estimate that GRPO reports misses
    what the samples hardly contain, such as the odd digits of a model near its end.
    """
    import keras

    from kerasseq import training

    keras.utils.set_random_seed(0)
    model = voting.writer()
    model.set_weights(start)
    trainer = training.GRPO(
        model,
        lambda prompts, texts: [voting.even(text) / voting.DIGITS for text in texts],
        num_generations=16,
        max_new_tokens=voting.DIGITS,
        **how,
    )
    trainer.compile(keras.optimizers.Adam(1e-3, global_clipnorm=1.0))
    epochs, prompts = -(-steps // EVERY), [voting.PROMPT] * 4
    options = {"epochs": epochs, "steps_per_epoch": min(EVERY, steps), "verbose": 0}
    sampling = {"max_new_tokens": voting.DIGITS, "num_generations": 64}
    kl = []

    def measure(epoch, logs):
        kl.append(trainer.divergence([voting.PROMPT], **sampling, seed=epoch))

    followed = [keras.callbacks.LambdaCallback(on_epoch_end=measure)]
    history = trainer.fit(prompts, batch_size=4, callbacks=followed, **options).history
    return {
        "step": EVERY * np.arange(1, epochs + 1),
        "even": np.array(history["reward"], "float32"),
        "kl": np.array(kl, "float32"),
    }


if __name__ == "__main__":
    main()
