"""AdamW for Transformers: warm-up, cosine decay, and weight decay of matrices only."""

import keras

from kerasseq.core import checks


def gpt_optimizer(
    model: keras.Model,
    learning_rate: float = 1e-3,
    steps: int = 2000,
    *,
    warm_up: int = 100,
    lowest: float = 0.1,
    weight_decay: float = 0.1,
    beta_2: float = 0.99,
    clip: float = 1.0,
) -> keras.optimizers.AdamW:
    r"""Makes AdamW with the settings of GPT training.

    The learning rate rises for `warm_up` steps, then follows a cosine decay. Weight
    decay applies to matrices, not to biases and norms. Gradients are clipped.

    Args:
        model: The built model, whose weights are optimized.
        learning_rate: The peak learning rate.
        steps: Number of training steps.
        warm_up: Steps until the peak.
        lowest: The final learning rate as a fraction of the peak.
        weight_decay: Weight decay of matrices.
        beta_2: Decay rate of Adam's second moment.
        clip: Maximum global norm of the gradients.

    Returns:
        A `keras.optimizers.AdamW`.

    Examples:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> adam = gpt_optimizer(model, 1e-3, steps=10, warm_up=2)
        >>> round(float(adam.learning_rate), 6)  # of the first step
        0.0005

    References:
        Radford et al. 2019; Loshchilov and Hutter 2019.
    """
    steps = checks.whole_number("steps", steps)
    warm_up = min(checks.whole_number("warm_up", warm_up, 0), steps - 1)
    first = learning_rate / max(warm_up, 1)
    rate = keras.optimizers.schedules.CosineDecay(
        first if warm_up else learning_rate,
        max(steps - warm_up, 1),
        alpha=lowest,
        warmup_target=learning_rate if warm_up else None,
        warmup_steps=warm_up,
    )
    optimizer = keras.optimizers.AdamW(
        rate, weight_decay=weight_decay, beta_2=beta_2, global_clipnorm=clip
    )
    optimizer.exclude_from_weight_decay(
        [weight for weight in model.trainable_weights if is_no_matrix(weight)]
    )
    return optimizer


def is_no_matrix(weight: keras.Variable) -> bool:
    """Returns whether a weight is a bias or belongs to a norm.

    The bias of an attention head is a matrix, so its name is checked as well.

    Examples:
        >>> dense = keras.layers.Dense(2)
        >>> dense.build((None, 3))
        >>> [is_no_matrix(weight) for weight in dense.weights]
        [False, True]
    """
    return len(weight.shape) < 2 or weight.path.rsplit("/", 1)[-1] == "bias"
