r"""Direct preference optimization: training on pairs of answers to a prompt.

$$
L = -\ln \sigma\big(\beta (\Delta_{chosen} - \Delta_{rejected})\big), \qquad
\Delta = \ln \pi(y \mid x) - \ln \pi_{ref}(y \mid x)
$$

with the model $\pi$, a frozen reference $\pi_{ref}$, and the answer y to the prompt x.

Rafailov et al. 2023. Left out: variants of the loss, such as label smoothing.
"""

from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.core.portable import portable_settings, public_optimizers
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.training.batches import fit_arguments
from kerasseq.training.preference_batches import (
    PairwiseBatches,
    encoded_pairs,
    pair_arrays,
)

METRICS = ("chosen", "rejected", "accuracies", "margins")
OPTIONS = ("callbacks", "validation_batch_size", "validation_freq", "verbose")
COMPILED = ("loss", "loss_weights", "metrics", "weighted_metrics")


@register
class DPO(keras.Model):
    r"""Trains a language model on preferences, by direct preference optimization.

    The model itself is trained; it keeps its class and its methods. The loss of a pair
    is $-\ln \sigma(r_{chosen} - r_{rejected})$ with the implicit reward

    $$r = \beta \big(\ln \pi(y \mid x) - \ln \pi_{ref}(y \mid x)\big)$$

    of an answer y to a prompt x, a sum over the tokens of the answer alone. At the
    optimum for votes by Bradley and Terry, $\pi$ is $\pi_{ref}\, e^{r / \beta}$,
    normalized, with the reward r behind the votes: a smaller $\beta$ lets the model
    move further from the reference.

    Prompt and answer are tokenized apart and joined, as in `generate`. No end of text
    is added: write it into the answers if the model is to learn where they end. If the
    model has dropout, its log-probabilities in training are noisy, and the first loss
    is not exactly ln 2.

    `fit` and `evaluate` report the means of the rewards, `rewards/chosen` and
    `rewards/rejected`, the share of the pairs with the larger reward for the chosen
    answer, `rewards/accuracies`, and the mean difference, `rewards/margins`.

    Args:
        model: A language model from ids to logits: `models.GPT`, `Mamba`, `RWKV`,
            `XLSTM` or `LanguageModel`.
        beta: $\beta$.
        reference: The model $\pi_{ref}$, which is copied; the model as it is now if
            None.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: A dictionary: "ids" `(B, 2, T)` of prompts with the chosen and with the
            rejected answers, and "answer", boolean, True at the tokens of the answers.

    Returns:
        The rewards of both answers, `(B, 2)`.

    Raises:
        TypeError: If `model` or `reference` is not a language model.
        ValueError: If `beta` is not above 0, or the vocabularies differ.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("0123456789:")
        >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
        >>> votes = [{"prompt": "7:", "chosen": "49", "rejected": "48"}]
        >>> history = DPO(model).fit(votes, epochs=2, verbose=0)
        >>> round(history.history["loss"][0], 4), model.generate("7:", 2, seed=0)[:2]
        (0.6931, '7:')

    References:
        Rafailov et al. 2023, equation 7. Slides C: preferences.
    """

    def __init__(
        self,
        model: keras.Model,
        beta: float = 0.1,
        reference: keras.Model | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model: Any = check_language_model("model", model)
        self.beta: float = checks.positive("beta", beta)
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
            name: keras.metrics.Mean(name=f"rewards/{name}") for name in METRICS
        }
        self.built: bool = True
        self.compile()

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
                    f"{name} must be left out, as DPO has its own loss and metrics, "
                    f"received {name}={checks.short(kwargs[name])}"
                )
        if optimizer is None:
            optimizer = keras.optimizers.Adam(1e-4, global_clipnorm=1.0)
        super().compile(optimizer, **kwargs)

    def call(self, inputs: Mapping[str, Tensor], training: bool = False) -> Tensor:
        ids, answer = (
            ops.reshape(inputs[name], (-1, ops.shape(inputs[name])[-1]))
            for name in ("ids", "answer")
        )  # (2 B, T)
        before, targets, answer = ids[:, :-1], ids[:, 1:], answer[:, 1:]
        own = log_probability(self.model(before, training=training), targets, answer)
        reference = self.reference(before, training=False)
        fixed = ops.stop_gradient(log_probability(reference, targets, answer))
        return self.beta * ops.reshape(own - fixed, (-1, 2))

    def compute_output_shape(self, inputs_shape: Mapping[str, Shape]) -> Shape:
        return inputs_shape["ids"][0], 2

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Computes the mean loss of the pairs, and what the layers of the model add."""
        loss = ops.mean(ops.softplus(y_pred[:, 1] - y_pred[:, 0]))
        for added in self.model.losses:
            loss = loss + ops.cast(added, loss.dtype)
        return loss

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the means of the rewards."""
        chosen, rejected = y_pred[:, 0], y_pred[:, 1]
        right = ops.cast(chosen > rejected, chosen.dtype)
        values = (chosen, rejected, right, chosen - rejected)
        for name, value in zip(METRICS, values, strict=True):
            self._means[name].update_state(value)
        return self.get_metrics_result()

    def fit(
        self,
        x: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_data: Any = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains on preferences.

        Args:
            x: `datasets.Preferences`; a table or dictionary of the columns "prompt",
                "chosen" and "rejected"; or rows, dictionaries of these. Texts, or ids
                for a model without a tokenizer.
            batch_size: Pairs in a batch.
            epochs: Index of the last epoch. An epoch is one pass over the pairs, or
                `steps_per_epoch` batches. Pairs that fill no batch are left out of it.
            initial_epoch: Epoch at which to start. The batches of earlier epochs are
                skipped.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_data: Other preferences.
            seed: Seed of the order.
            **kwargs: `callbacks`, `validation_batch_size`, `validation_freq` and
                `verbose`, as for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If `x` has no preferences.
            ValueError: If a text is empty or too long, both answers are equal, or an id
                is outside the vocabulary. The message names the row.
        """
        check_names("fit", self.fit, OPTIONS, kwargs)
        batches = PairwiseBatches(self._pairs(x), batch_size, seed)
        options = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        if validation_data is not None:
            # A tuple, as Keras would take the keys of a dictionary for arrays.
            options["validation_data"] = (self.encode(validation_data), None)
            options.setdefault("validation_batch_size", batch_size)
        return super().fit(**fit_arguments(batches, steps_per_epoch, options))

    def evaluate(self, x: Any = None, **kwargs: Any) -> Any:
        """Computes loss and metrics of preferences, as `keras.Model.evaluate`.

        Args:
            x: Preferences, as for `fit`.
            **kwargs: As for `keras.Model.evaluate`.
        """
        return super().evaluate(self.encode(x), **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """Computes the rewards of the chosen and the rejected answers, `(rows, 2)`.

        Args:
            x: Preferences, as for `fit`.
            **kwargs: As for `keras.Model.predict`.
        """
        return super().predict(self.encode(x), **kwargs)

    def encode(self, x: Any) -> dict[str, Any]:
        """Returns preferences as the arrays that the call reads.

        Args:
            x: Preferences, as for `fit`. Such arrays are returned as they are.
        """
        if isinstance(x, Mapping) and {*x} == {"ids", "answer"}:
            return dict(x)  # validation data come here again
        return pair_arrays(self._pairs(x))

    def _pairs(self, x):
        positions = [
            model.context_length
            for model in (self.model, self.reference)
            if model.context_length is not None
        ]
        longest = min(positions) + 1 if positions else None  # the last is not read
        return encoded_pairs(x, self.model.ids, longest)

    def get_compile_config(self) -> Config | None:
        """Settings of training, with the variables of the optimizer made."""
        if not self.optimizer.built:  # loading expects them
            self.optimizer.build(self.trainable_variables)
        return public_optimizers(super().get_compile_config())

    def compile_from_config(self, config: Config) -> None:
        """Compiles a loaded model as it was."""
        config = portable_settings({"compile_config": config})["compile_config"]
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "beta": self.beta,
            "reference": keras.saving.serialize_keras_object(self.reference),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> Self:
        models = {
            name: keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
            for name in ("model", "reference")
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
    logits = ops.convert_to_tensor(logits)
    dtype = scores_dtype(keras.backend.standardize_dtype(logits.dtype))
    log_p = -ops.sparse_categorical_crossentropy(
        targets, ops.cast(logits, dtype), from_logits=True
    )
    return ops.sum(ops.where(answer, log_p, 0), axis=-1)


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


def frozen_copy(model: keras.Model) -> Any:
    """Returns a copy of a model with its weights, which is not trained."""
    config = {**model.get_config(), "name": f"{model.name}_reference"}
    copy = type(model).from_config(config)
    copy.set_weights(model.get_weights())
    copy.trainable = False
    return copy
