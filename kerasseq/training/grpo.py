r"""Group relative policy optimization: training on answers that the model samples.

$$
L = -\frac1N \sum_{i=1}^{N} \frac{1}{|y_i|} \sum_t \Big[ \min\big(\rho_t A_i,\,
\mathrm{clip}(\rho_t, 1 - \epsilon, 1 + \epsilon) A_i\big) - \beta\, \rho_t K_t \Big]
$$

$$
\rho_t = \frac{\pi(y_t)}{\pi_{old}(y_t)}, \qquad
K_t = \frac{\pi_{ref}(y_t)}{\pi(y_t)} - \ln \frac{\pi_{ref}(y_t)}{\pi(y_t)} - 1
$$

with the advantage $A_i$ of an answer among the G answers to its prompt, and all
probabilities given the prompt and the tokens before.

Shao et al. 2024, equation 3. The factor $\rho_t$ of $K_t$ is not in the paper: with it
the gradient is that of $KL(\pi \| \pi_{ref})$, without it that of $KL(\pi_{ref} \|
\pi)$. Left out: other normalizations over tokens, asymmetric clipping, several rewards.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from kerasseq.core import arguments, checks
from kerasseq.core.interrupts import deferred_interrupt
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.training.batches import NumberedBatches, fit_arguments
from kerasseq.training.grpo_loss import token_losses
from kerasseq.training.grpo_samples import (
    Reward,
    encoded_prompts,
    prompt_batches,
    sampled,
    seed_of,
)
from kerasseq.training.policy import (
    PolicyModel,
    frozen_copy,
    token_log_probabilities,
)

METRICS = ("reward", "kl")


@register
class GRPO(PolicyModel):
    r"""Trains a language model on rewards of its own answers.

    Each step samples G answers to each prompt of a batch, with the cached `generate`,
    and trains on them. An answer is rewarded by how much better it is than the others
    to its prompt, $A = (r - \mathrm{mean}) / (\mathrm{std} + 10^{-4})$, so no value
    network is needed. The term K of the loss holds the model near the reference:

    $$
    -\frac1N \sum_i \frac{1}{|y_i|} \sum_t \Big[ \min\big(\rho_t A_i,\,
    \mathrm{clip}(\rho_t, 1 - \epsilon, 1 + \epsilon) A_i\big) - \beta\, \rho_t K_t
    \Big], \qquad
    K = \frac{\pi_{ref}}{\pi} - \ln \frac{\pi_{ref}}{\pi} - 1
    $$

    With `scale_rewards=False` and answers of one length the optimum is $\pi_{ref}\,
    e^{\frac{G - 1}{G} r / \beta}$, normalized. With `scale_rewards=True` small
    differences of rewards count as much as large ones, and the model leaves the
    reference further.

    `fit` reports `reward`, the mean reward; `kl`, the mean of $\rho K$ over the tokens;
    and `loss`.

    Args:
        model: A language model: `models.GPT`, `Mamba`, `RWKV`, `XLSTM` or
            `LanguageModel`. It is trained itself, and keeps its class and its methods.
        reward: A reward model, such as `gpt.with_head("reward")`, which is copied; or a
            function of a list of prompts and a list of their answers that returns as
            many numbers. It gets texts, or ids if the model has no tokenizer. A
            function is not saved: give it to `set_reward` of the loaded `GRPO`.
        num_generations: G, at least 2.
        beta: $\beta$; 0 for no reference.
        epsilon: $\epsilon$.
        scale_rewards: Whether advantages are divided by the standard deviation.
        use_bias_correction_kl: Whether $K$ has the factor $\rho$, so that its gradient
            is that of $KL(\pi \| \pi_{ref})$. Without it, as by default in the package
            trl, the gradient is that of $KL(\pi_{ref} \| \pi)$.
        num_iterations: Updates on the same answers. $\rho$ is 1 in the first.
        max_new_tokens: The most tokens of an answer.
        temperature: Temperature of the samples; the probabilities in the loss have it.
        stop: An id, a text that is one token, or a list of these, with which an answer
            ends.
        reference: The model $\pi_{ref}$, which is copied; the model as it is now if
            None.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: A dictionary: "ids" `(N, T)` of prompts with answers, and "answer",
            boolean, True at the tokens of the answers.

    Returns:
        Log-probabilities `(N, T - 1)` of the tokens from the second on: "model" and
        "reference".

    Raises:
        TypeError: If `model` or `reference` is not a language model, or `reward`
            neither a reward model nor a function.
        ValueError: If an argument is out of range, or the vocabularies differ.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("0123456789:")
        >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
        >>> def sevens(prompts, answers):
        ...     return [answer.count("7") for answer in answers]
        >>> grpo = GRPO(model, sevens, num_generations=4, max_new_tokens=2)
        >>> history = grpo.fit([":"], epochs=2, verbose=0)
        >>> sorted(history.history), model.generate(":", 2, seed=0)[:1]
        (['kl', 'loss', 'reward'], ':')

    References:
        Shao et al. 2024, equation 3. Slides C: preferences.
    """

    parts: ClassVar[tuple[str, ...]] = ("model", "reference", "reward")

    def __init__(
        self,
        model: keras.Model,
        reward: Reward | keras.Model | None,
        num_generations: int = 16,
        beta: float = 0.04,
        epsilon: float = 0.2,
        scale_rewards: bool = True,
        *,
        use_bias_correction_kl: bool = True,
        num_iterations: int = 1,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        stop: Any = None,
        reference: keras.Model | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, reference, METRICS, **kwargs)
        whole = checks.whole_number
        self.num_generations: int = whole("num_generations", num_generations, 2)
        self.beta: float = _not_negative("beta", beta)
        self.epsilon: float = checks.positive("epsilon", epsilon)
        self.scale_rewards: bool = checks.flag("scale_rewards", scale_rewards)
        self.use_bias_correction_kl: bool = checks.flag(
            "use_bias_correction_kl", use_bias_correction_kl
        )
        self.num_iterations: int = whole("num_iterations", num_iterations)
        self.max_new_tokens: int = whole("max_new_tokens", max_new_tokens)
        self.temperature: float = checks.positive("temperature", temperature)
        self.stop: Any = stop
        self.set_reward(reward)
        self.compile()

    @property
    def reward(self) -> Any:
        """The reward model, or the function of prompts and answers; or None."""
        function = vars(self).get("_reward_function")
        return self.reward_model if function is None else function

    def set_reward(self, reward: Reward | keras.Model | None) -> None:
        """Replaces the reward, such as after loading, as functions are not saved.

        Args:
            reward: As for `GRPO`.

        Raises:
            TypeError: If it is neither a reward model nor a function.
        """
        is_model = isinstance(reward, keras.Model) and hasattr(reward, "rewards")
        if is_model and reward.head != "reward":
            raise TypeError(
                'reward must be a model with head="reward", or a function, received '
                f"one with head={reward.head!r}. Train one with with_head('reward')"
            )
        if not is_model and (isinstance(reward, keras.Model) or not _is_call(reward)):
            raise TypeError(
                "reward must be a reward model, such as gpt.with_head('reward'), or a "
                f"function of prompts and answers, received {checks.short(reward)}"
            )
        self.reward_model: Any = frozen_copy(reward, "reward") if is_model else None
        vars(self)["_reward_function"] = None if is_model else reward

    def rewards_of(self, prompts: list[Any], answers: list[Any]) -> Any:
        """Computes the reward of each answer.

        Args:
            prompts: The prompt of each answer: texts, or ids without a tokenizer.
            answers: The answers.
        """
        if self.reward_model is not None:
            return self.reward_model.rewards(list(zip(prompts, answers, strict=True)))
        return self.reward(prompts, answers)

    def call(
        self, inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        targets = inputs["ids"][:, 1:]
        own, fixed = (
            token_log_probabilities(logits, targets, self.temperature)
            for logits in (
                self.logits("model", inputs, training),
                self.logits("reference", inputs),
            )
        )
        return {"model": own, "reference": ops.stop_gradient(fixed)}

    def compute_output_shape(self, inputs_shape: Mapping[str, Shape]) -> Any:
        rows, length = inputs_shape["ids"]
        return dict.fromkeys(
            ("model", "reference"), (rows, None if length is None else length - 1)
        )

    def _parts_of_loss(self, x, y_pred):
        """Returns losses and KL terms of tokens, `(N, T - 1)`, and which count."""
        own, answer = y_pred["model"], ops.cast(x["answer"][:, 1:], "bool")
        old = x["old"] if "old" in x else ops.stop_gradient(own)
        losses, kl = token_losses(
            own,
            old,
            y_pred["reference"],
            ops.cast(x["advantages"], own.dtype)[:, None],
            epsilon=self.epsilon,
            use_bias_correction_kl=self.use_bias_correction_kl,
        )
        losses, kl = (ops.where(answer, each, 0) for each in (losses, kl))
        return losses, kl, ops.cast(answer, own.dtype)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Computes the loss of a batch, and what the layers of the model add."""
        losses, kl, counts = self._parts_of_loss(x, y_pred)
        each = ops.sum(losses + self.beta * kl, axis=1) / ops.sum(counts, axis=1)
        loss = ops.mean(each)
        for added in self.model.losses:
            loss = loss + ops.cast(added, loss.dtype)
        return loss

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the means of reward and KL."""
        _, kl, counts = self._parts_of_loss(x, y_pred)
        self._means["reward"].update_state(x["rewards"])
        self._means["kl"].update_state(kl, sample_weight=counts)
        return self.get_metrics_result()

    def fit(
        self,
        prompts: Any,
        *,
        batch_size: int = 8,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        callbacks: Any = None,
        verbose: int | str = "auto",
        shuffle: bool = True,
        seed: int = 0,
    ) -> keras.callbacks.History:
        """Samples answers to prompts, and trains on them.

        Ctrl-C keeps what the finished steps have learned.

        Args:
            prompts: A list of texts, or of ids for a model without a tokenizer. The
                same prompt may be there several times. Or a stream of batches, as from
                `grpo.batches(prompts).stream()`, of which an epoch is
                `steps_per_epoch`.
            batch_size: Prompts in a batch; all if there are fewer. A batch has
                `num_generations` times as many answers.
            epochs: Index of the last epoch. An epoch is one pass over the prompts, or
                `steps_per_epoch` batches. Prompts that fill no batch are left out of
                it.
            initial_epoch: Epoch at which to start. The batches of earlier epochs are
                skipped.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            callbacks: As for `keras.Model.fit`.
            verbose: As for `keras.Model.fit`.
            shuffle: True; False is possible for a stream alone.
            seed: Seed of the order and of the answers.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If `prompts` is no list of prompts.
            ValueError: If there are none, one is empty or too long, or `reward` raises
                an error or returns anything but a finite number for each answer. The
                message has the prompt.
        """
        last = checks.whole_number("epochs", epochs)
        first = checks.whole_number("initial_epoch", initial_epoch, 0)
        options = {"initial_epoch": first, "shuffle": shuffle}
        if hasattr(prompts, "__next__"):
            steps, stream = steps_per_epoch, prompts
        else:
            batches = self.batches(prompts, batch_size, seed)
            options = fit_arguments(batches, steps_per_epoch, options)
            steps, stream = options["steps_per_epoch"], options["x"]
        steps = checks.whole_number("steps_per_epoch", steps)
        followed = _callbacks(self, callbacks, verbose, last, steps)
        self._train(stream, range(first, last), steps, followed)
        return self.history

    def batches(
        self, prompts: Any, batch_size: int = 8, seed: int = 0
    ) -> NumberedBatches:
        """Returns the batches of prompts on which `fit` trains, by number.

        Args:
            prompts: A list of prompts, as for `fit`.
            batch_size: Prompts in a batch; all if there are fewer.
            seed: Seed of the order and of the answers.
        """
        return prompt_batches(*self._encoded(prompts), batch_size, seed)

    def _train(self, stream, epochs, steps, followed):
        """Makes the steps of some epochs, and tells the callbacks.

        Keras' own `fit` asks for batches ahead, and on JAX keeps the weights apart
        until an epoch ends: the answers would be those of an older model.
        """
        self.stop_training, logs = False, None
        followed.on_train_begin()
        for epoch in epochs:
            self.reset_metrics()
            followed.on_epoch_begin(epoch)
            for step in range(steps):
                followed.on_train_batch_begin(step)
                logs = self._update(*next(stream))
                followed.on_train_batch_end(step, logs)
                if self.stop_training:
                    break
            followed.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        followed.on_train_end(logs)

    def _encoded(self, prompts):
        """Prompts and their ids, if there is a reward."""
        if self.reward is None:
            raise ValueError(
                "reward must be set, received None: a function is not saved. Set it "
                "again: grpo.set_reward(function)"
            )
        sizes = self.max_new_tokens, self.longest
        return encoded_prompts(self.model, prompts, *sizes)

    def _update(self, prompts, ids, seed):
        """Samples answers, and makes `num_iterations` updates."""
        arrays = self.sample(prompts, ids, seed=seed)
        if self.num_iterations > 1:
            arrays["old"] = self.predict_on_batch(arrays)["model"]
        for _ in range(self.num_iterations):
            with deferred_interrupt():
                logs = self.train_on_batch(arrays, return_dict=True)
        return logs

    def evaluate(
        self, prompts: Any, *, batch_size: int = 8, seed: int = 0
    ) -> dict[str, float]:
        """Samples answers to prompts, and computes loss and metrics without training.

        Args:
            prompts: A list of prompts, as for `fit`.
            batch_size: Prompts in a batch.
            seed: Seed of the answers.

        Returns:
            "loss", "reward" and "kl", the means over all prompts.

        Raises:
            ValueError: As for `fit`.
        """
        prompts, ids = self._encoded(prompts)
        size = checks.whole_number("batch_size", batch_size)
        self.reset_metrics()
        for n in range(0, len(prompts), size):
            each = seed_of(seed, n)
            arrays = self.sample(prompts[n : n + size], ids[n : n + size], seed=each)
            logs = self.test_on_batch(arrays, return_dict=True)
        return {name: float(value) for name, value in logs.items()}

    def sample(
        self, prompts: Any, ids: list[list[int]] | None = None, *, seed: int = 0
    ) -> dict[str, np.ndarray]:
        """Samples answers to prompts, with rewards and advantages.

        Args:
            prompts: A list of prompts, as for `fit`.
            ids: Their ids, if they are known.
            seed: Seed of the answers.

        Returns:
            A dictionary of arrays: "ids" `(N, T)` of prompts with answers, the G
            answers to a prompt in a row; "answer" `(N, T)`, True at the tokens of the
            answers; "rewards" and "advantages" `(N,)`.

        Raises:
            ValueError: As for `fit`.
        """
        if ids is None:
            prompts, ids = self._encoded(prompts)
        return sampled(
            self.model,
            prompts,
            ids,
            self.rewards_of,
            num_generations=self.num_generations,
            scale_rewards=self.scale_rewards,
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            stop=self.stop,
            seed=seed,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        own = [n for n in arguments.names(GRPO) if n not in (*config, "reward")]
        config |= {name: getattr(self, name) for name in own}
        reward = keras.saving.serialize_keras_object(self.reward_model)
        return {**config, "reward": reward}


def _callbacks(model, callbacks, verbose, epochs, steps):
    """Returns the callbacks of a run, with a history and the progress bar."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    verbose = 1 if verbose == "auto" else verbose
    return keras.callbacks.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=steps,
    )


def _is_call(reward):
    return reward is None or callable(reward)


def _not_negative(name, value):
    if checks.finite(name, value) < 0:
        raise ValueError(f"{name} must be a number of at least 0, received {value}")
    return float(value)
