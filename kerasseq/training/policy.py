"""What training on preferences shares: a model, its frozen reference, and metrics."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.portable import portable_settings, public_optimizers
from kerasseq.core.serialization import scores_dtype
from kerasseq.core.types import Config, Tensor
from kerasseq.training.grpo_samples import answer_arrays, encoded_prompts

COMPILED = ("loss", "loss_weights", "metrics", "weighted_metrics")
PART = 64  # answers whose divergence is computed at a time


class PolicyModel(keras.Model):
    """The base of `DPO` and `GRPO`: trains a language model beside a frozen reference.

    The model itself is trained; it keeps its class and its methods.

    Args:
        model: A language model.
        reference: The reference, which is copied; the model as it is now if None.
        metrics: Names of the means that `fit` reports.
        prefix: What precedes these names in the history.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If `model` or `reference` is not a language model.
        ValueError: If the vocabularies differ.
    """

    parts: ClassVar[tuple[str, ...]] = ("model", "reference")  # models to be saved

    def __init__(
        self,
        model: keras.Model,
        reference: keras.Model | None,
        metrics: Sequence[str],
        *,
        prefix: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model: Any = check_language_model("model", model)
        if reference is not None:
            check_language_model("reference", reference)
        self.reference: Any = frozen_copy(model if reference is None else reference)
        sizes = model.vocabulary_size, self.reference.vocabulary_size
        if sizes[0] != sizes[1]:
            raise ValueError(
                "reference must have the vocabulary of the model, received "
                f"{sizes[1]} and {sizes[0]} ids. Choose a model with the same tokenizer"
            )
        self._means: dict[str, keras.metrics.Mean] = {
            name: keras.metrics.Mean(name=f"{prefix}{name}") for name in metrics
        }
        self.built: bool = True

    def logits(self, name: str, inputs: Any, training: bool = False) -> Tensor:
        """Computes the logits of the tokens from the second on.

        Args:
            name: "model" or "reference".
            inputs: "ids" `(B, T)`, and "answer", True at the tokens of the answers.
            training: Whether to apply dropout.

        Returns:
            `(B, T - 1, V)`.
        """
        model, before = getattr(self, name), inputs["ids"][:, :-1]
        if not getattr(getattr(model, "stack", None), "has_experts", False):
            return model(before, training=training)
        # Padding on the right changes no output before it, but the load of experts.
        real = real_tokens(inputs["answer"][:, 1:])
        return model(before, training=training, padding_mask=real)

    @property
    def longest(self) -> int | None:
        """The most tokens that both models read; None if their positions never end."""
        models = self.model, self.reference
        lengths = [each.context_length for each in models]
        return min((n for n in lengths if n is not None), default=None)

    def divergence(
        self,
        prompts: Any,
        *,
        max_new_tokens: int = 64,
        num_generations: int = 16,
        stop: Any = None,
        seed: int = 0,
    ) -> float:
        r"""Computes how far the model has moved from the reference.

        $$KL(\pi \| \pi_{ref}) = E_{y \sim \pi} \sum_t \sum_v \pi(v) \ln
        \frac{\pi(v)}{\pi_{ref}(v)}$$

        with all probabilities given the prompt and the tokens of y before t. The
        answers y are sampled.

        Args:
            prompts: A list of texts, or of ids for a model without a tokenizer.
            max_new_tokens: The most tokens of an answer.
            num_generations: Answers to each prompt.
            stop: As for `generate`.
            seed: Seed of the answers.

        Returns:
            The mean over the answers, in nats an answer.

        Raises:
            ValueError: If there are no prompts, or one is empty or too long.
        """
        count = checks.whole_number("num_generations", num_generations)
        sizes = max_new_tokens, self.longest
        _, prompts = encoded_prompts(self.model, prompts, *sizes)
        repeated = [row for row in prompts for _ in range(count)]
        drawn = self.model.sample_answers(
            repeated, max_new_tokens, stop=stop, seed=seed
        )
        answers = zip(drawn.ids, drawn.lengths, strict=True)
        answers = [row[:n].tolist() for row, n in answers]
        length = max(map(len, prompts)) + max_new_tokens
        arrays = answer_arrays(repeated, answers, length)
        total = 0.0
        for n in range(0, len(repeated), PART):
            part = {name: each[n : n + PART] for name, each in arrays.items()}
            total += self._divergence_of(part)
        return total / len(repeated)

    def _divergence_of(self, arrays):
        """Returns the sum over the tokens of answers, in nats."""
        own, fixed = (
            ops.convert_to_numpy(
                ops.log_softmax(model.predict(arrays["ids"][:, :-1], verbose=0))
            )
            for model in (self.model, self.reference)
        )
        each = np.sum(np.exp(own) * (own - fixed), axis=-1)  # (N, T - 1)
        return float(np.sum(each * arrays["answer"][:, 1:]))

    def compile(
        self, optimizer: keras.optimizers.Optimizer | str | None = None, **kwargs: Any
    ) -> None:
        """Configures training, as `keras.Model.compile`.

        Args:
            optimizer: Adam at 1e-4, with gradients clipped to a norm of 1, if None.
            **kwargs: As for `keras.Model.compile`, without loss and metrics.
        """
        for name in COMPILED:
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"{name} must be left out, as {type(self).__name__} has its own "
                    f"loss and metrics, received {name}={checks.short(kwargs[name])}"
                )
        if optimizer is None:
            optimizer = keras.optimizers.Adam(1e-4, global_clipnorm=1.0)
        jit_compile = kwargs.pop("jit_compile", "auto")
        # What the user chose, to be saved: the default is that of the backend.
        self._chosen = kernels.compiler() if jit_compile is True else jit_compile
        if jit_compile == "auto":
            eager = kwargs.get("run_eagerly", False)
            jit_compile = kernels.default_jit_compile() and not eager
        super().compile(optimizer, jit_compile=jit_compile, **kwargs)

    def get_compile_config(self) -> Config | None:
        """Returns settings of training, with the variables of the optimizer made."""
        if not self.optimizer.built:  # loading expects them
            self.optimizer.build(self.trainable_variables)
        config = public_optimizers(super().get_compile_config())
        return {**config, "jit_compile": self._chosen}

    def compile_from_config(self, config: Config) -> None:
        """Compiles a loaded model as it was."""
        config = portable_settings({"compile_config": config})["compile_config"]
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "reference": keras.saving.serialize_keras_object(self.reference),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> Self:
        models = {
            name: keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
            for name in cls.parts
            if config[name] is not None
        }
        return cls(**{**config, **models})


def log_probability(logits: Tensor, targets: Tensor, answer: Tensor) -> Tensor:
    r"""Sums the log-probabilities of the tokens of answers.

    Args:
        logits: `(B, T, V)`.
        targets: Ids of the next tokens, `(B, T)`.
        answer: Boolean `(B, T)`, True where the next token is one of the answer.

    Returns:
        $\sum_t \ln p(y_t \mid x, y_{<t})$, `(B,)`, in float32 or float64.

    Examples:
        >>> p = np.log([[[0.5, 0.5], [0.25, 0.75], [0.9, 0.1]]])
        >>> answer = np.array([[False, True, False]])
        >>> log_p = log_probability(p, np.array([[0, 1, 0]]), answer)
        >>> round(float(keras.ops.exp(log_p[0])), 6)
        0.75
    """
    log_p = token_log_probabilities(logits, targets)
    return ops.sum(ops.where(answer, log_p, 0), axis=-1)


def token_log_probabilities(
    logits: Tensor, targets: Tensor, temperature: float = 1.0
) -> Tensor:
    r"""Computes the log-probability of each token of texts.

    Args:
        logits: `(B, T, V)`.
        targets: Ids of the next tokens, `(B, T)`.
        temperature: What the logits are divided by.

    Returns:
        $\ln p(y_t \mid x, y_{<t})$, `(B, T)`, in float32 or float64.

    Examples:
        >>> p = np.log([[[0.5, 0.5], [0.25, 0.75]]])
        >>> log_p = token_log_probabilities(p, np.array([[0, 1]]))
        >>> [round(float(each), 6) for each in keras.ops.exp(log_p[0])]
        [0.5, 0.75]
    """
    logits = ops.convert_to_tensor(logits)
    dtype = scores_dtype(keras.backend.standardize_dtype(logits.dtype))
    return -ops.sparse_categorical_crossentropy(
        targets, ops.cast(logits, dtype) / temperature, from_logits=True
    )


def real_tokens(answer: Tensor) -> Tensor:
    """Marks the tokens up to the last one of each answer; padding comes after it.

    Args:
        answer: Boolean `(B, T)`, True at the tokens of the answers.

    Examples:
        >>> marks = np.array([[False, True, False, True, False]])
        >>> keras.ops.convert_to_numpy(real_tokens(marks)).tolist()
        [[True, True, True, True, False]]
    """
    backwards = ops.flip(ops.cast(answer, "int32"), axis=-1)
    return ops.flip(ops.cumsum(backwards, axis=-1), axis=-1) > 0


def check_language_model(name: str, model: Any) -> Any:
    """Returns a model that maps ids to logits of the next token; raises for others.

    Args:
        name: The name of the argument.
        model: The model.

    Examples:
        >>> check_language_model("model", 3)
        Traceback (most recent call last):
        ...
        TypeError: model must be a language model, such as models.GPT or \
LanguageModel, received 3
    """
    is_one = isinstance(model, keras.Model) and all(
        hasattr(model, part) for part in ("ids", "context_length", "next_tokens")
    )
    if not is_one or getattr(model, "head", "tokens") is None:
        raise TypeError(
            f"{name} must be a language model, such as models.GPT or LanguageModel, "
            f"received {checks.short(model)}"
        )
    return model


def frozen_copy(model: keras.Model, role: str = "reference") -> Any:
    """Returns a copy of a model with its weights, which is not trained."""
    config = {**model.get_config(), "name": f"{model.name}_{role}"}
    copy = type(model).from_config(config)
    copy.set_weights(model.get_weights())
    copy.trainable = False
    return copy
