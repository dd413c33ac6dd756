r"""Direct preference optimization: training on pairs of answers to a prompt.

$$
L = -\ln \sigma\big(\beta (\Delta_{chosen} - \Delta_{rejected})\big), \qquad
\Delta = \ln \pi(y \mid x) - \ln \pi_{ref}(y \mid x)
$$

with the model $\pi$, a frozen reference $\pi_{ref}$, and the answer y to the prompt x.

Rafailov et al. 2023. Left out: variants of the loss, such as label smoothing.
"""

import math
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.training.batches import GroupedBatches, fit_arguments
from kerasseq.training.policy import PolicyModel, log_probability
from kerasseq.training.preference_batches import (
    encoded_pairs,
    pair_arrays,
    pairwise_batches,
)

METRICS = ("chosen", "rejected", "accuracies", "margins")
OPTIONS = ("callbacks", "validation_batch_size", "validation_freq", "verbose")
OPTIONS += ("shuffle",)


@register
class DPO(ListedConfig, PolicyModel):
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
        super().__init__(model, reference, METRICS, prefix="rewards/", **kwargs)
        self.beta: float = checks.positive("beta", beta)
        self.compile()

    def call(self, inputs: Mapping[str, Tensor], training: bool = False) -> Tensor:
        rows = {
            name: ops.reshape(inputs[name], (-1, ops.shape(inputs[name])[-1]))
            for name in ("ids", "answer")
        }  # (2 B, T)
        targets, answer = rows["ids"][:, 1:], rows["answer"][:, 1:]
        own = log_probability(self.logits("model", rows, training), targets, answer)
        fixed = log_probability(self.logits("reference", rows), targets, answer)
        fixed = ops.stop_gradient(fixed)
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
                "chosen" and "rejected"; or rows, dictionaries of these. Texts; ids, for
                a model without a tokenizer; or messages, which the chat template of the
                tokenizer writes. Or a stream of batches, as from
                `dpo.batches(x).stream()`, of which an epoch is `steps_per_epoch`.
            batch_size: Pairs in a batch.
            epochs: Index of the last epoch. An epoch is one pass over the pairs, or
                `steps_per_epoch` batches. Pairs that fill no batch are left out of it.
            initial_epoch: Epoch at which to start. The batches of earlier epochs are
                skipped.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_data: Other preferences.
            seed: Seed of the order.
            **kwargs: `callbacks`, `validation_batch_size`, `validation_freq`,
                `verbose` and, for a stream, `shuffle`, as for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If `x` has no preferences.
            ValueError: If a text is empty or too long, both answers are equal, or an id
                is outside the vocabulary. The message names the row.
        """
        check_names("fit", self.fit, OPTIONS, kwargs)
        options = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        if validation_data is not None:
            # A tuple, as Keras would take the keys of a dictionary for arrays.
            options["validation_data"] = (self.encode(validation_data), None)
            options.setdefault("validation_batch_size", batch_size)
        if hasattr(x, "__next__"):
            options |= {"x": x, "steps_per_epoch": steps_per_epoch, "shuffle": False}
            return super().fit(**options)
        batches = self.batches(x, batch_size, seed)
        return super().fit(**fit_arguments(batches, steps_per_epoch, options))

    def batches(self, x: Any, batch_size: int = 32, seed: int = 0) -> GroupedBatches:
        """Returns the batches on which `fit` trains, by number.

        Args:
            x: Preferences, as for `fit`.
            batch_size: Pairs in a batch.
            seed: Seed of the order.
        """
        longest = math.inf if self.longest is None else self.longest + 1
        return pairwise_batches(self._pairs(x), batch_size, seed, longest)

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
        longest = None if self.longest is None else self.longest + 1  # the last unread
        tokenizer = getattr(self.model, "tokenizer", None)
        return encoded_pairs(x, self.model.ids, longest, tokenizer)
