"""Learning rates of the runs."""


def rising_then_cosine(rate, steps, warm_up):
    """A rate that rises for `warm_up` steps, at most half, and falls as a cosine to 0.

    Args:
        rate: The peak.
        steps: Number of steps of the run.
        warm_up: Steps until the peak.
    """
    import keras

    warm_up = min(warm_up, steps // 2)
    return keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=rate, warmup_steps=warm_up
    )
