"""A language model over any recurrent architecture: what comes next, and then what."""

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.arguments import own
from kerasseq.core.padding import pad_rows
from kerasseq.core.serialization import register
from kerasseq.decoding import sample
from kerasseq.decoding.sampling import check_sampling
from kerasseq.language.causal import CausalModel, known_ids
from kerasseq.language.stepping import Stepper
from kerasseq.language.writing import is_list_of_prompts, seed_of
from kerasseq.rnn.layer import RNN
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.base import embedding_width


@register
class LanguageModel(CausalModel):
    r"""Predict each token of a text from those before it.

    $$p(x_{t+1} \mid x_1 \dots x_t) = \mathrm{softmax}(W h_t + b)$$

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", or a layer of your own, which gives
            `(batch, time, units)` and sees no future.
        tokenizer: A fitted tokenizer of `kerasseq.text`. It is saved with the model.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        units: Width of the layers, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        embedding_dim: Width of the vector of a token. `units` if None.
        dropout: Fraction dropped before each layer in training.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, if neither or both of `tokenizer` and
            `vocabulary_size` are given, or if the layer sees the future.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = LanguageModel("lstm", tokenizer, units=5)
        >>> len(model.generate("he", length=7, seed=0))
        9

    References:
        Slides A, B, C, D, E: causal language models.
    """

    def __init__(
        self,
        architecture,
        tokenizer=None,
        *,
        vocabulary_size=None,
        units=128,
        num_layers=1,
        embedding_dim=None,
        dropout=0.0,
        **kwargs,
    ):
        arguments = own(locals())
        size = known_ids(tokenizer, vocabulary_size)
        inputs = keras.Input((None,), dtype="int32", name="ids")
        width = embedding_width(embedding_dim, units)
        embedding = keras.layers.Embedding(size, width, name="embedding")
        x = embedding(inputs)
        layers = build_layers(
            architecture, units=units, num_layers=num_layers, dropout=dropout
        )
        for layer in layers:
            x = first_output(layer(x))
        if len(x.shape) != 3:
            raise ValueError(
                f"a language model needs an output at every step, but "
                f"{layers[-1].name} gives {x.shape}: build it with return_sequences"
            )
        logits = keras.layers.Dense(size, dtype="float32", name="logits")(x)
        super().__init__(inputs, logits, arguments, **kwargs)
        self._sequence_layers = layers
        if not all(
            isinstance(layer, RNN) and not layer.go_backwards for layer in layers
        ):
            self._check_causal()

    def _check_causal(self):
        """Refuse a layer that changes its first outputs when the last input changes."""
        if self.vocabulary_size < 2:
            return
        ids = np.zeros((1, 7), "int32")
        other = ids.copy()
        other[0, -1] = 1
        before, after = (ops.convert_to_numpy(self(i))[0, :-1] for i in (ids, other))
        if not np.array_equal(before, after):
            raise ValueError(
                f"{self._sequence_layers[0].name} sees the future: its outputs at "
                "early steps depend on later tokens, which it must predict. "
                "A bidirectional layer cannot be used here"
            )

    def generate(
        self, prompt, length, *, temperature=1.0, top_k=None, top_p=None, seed=None
    ):
        """Write on from a prompt.

        Recurrent layers carry their state from token to token, so that each costs the
        same, however long the text. Other layers read the whole text again.

        Args:
            prompt: Text, which is never the name of a file, or ids `(tokens,)`; or a
                list of such prompts.
            length: How many tokens to write.
            temperature: Lower is more deterministic, higher more random; 0 takes the
                most probable token.
            top_k: Only the k best tokens may be drawn.
            top_p: Only the best tokens that hold this much probability may be drawn.
            seed: Seed of the draw; with it the text repeats exactly.

        Returns:
            The prompt and what was written: text, or an array of ids; a list of them
            for a list of prompts.

        Raises:
            ValueError: If the prompt is empty, or an option out of range.
        """
        checks.whole_number("length", length)
        check_sampling(temperature, top_k, top_p)
        if is_list_of_prompts(prompt):
            options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
            return [
                self.generate(one, length, seed=seed_of(seed, n), **options)
                for n, one in enumerate(prompt)
            ]
        ids = self.ids(prompt)
        if ids is None or not len(ids):
            raise ValueError("prompt must have at least one token to write on from")
        rng = np.random.default_rng(seed)
        written, states, new = list(ids), None, ids
        advance = self._advance()
        for _ in range(length):
            logits, states = advance(new, states, written)
            token = sample(
                logits, rng, temperature=temperature, top_k=top_k, top_p=top_p
            )
            written.append(int(token[0]))
            new = token
        if self.tokenizer is None:
            return np.array(written, "int32")
        return self.tokenizer.decode(written)

    def _advance(self):
        """Function `(new, states, written)` of ids to logits `(1, V)` and states.

        It is compiled for the model as it is now.
        """
        layers, programs = self._sequence_layers, kernels.programs(self)
        if all(isinstance(layer, RNN) for layer in layers):
            ends = self.get_layer("embedding"), layers, self.get_layer("logits")
            step = programs.get(
                "step", None, lambda: Stepper(*ends, pure=programs.pure)
            )
            return lambda new, states, written: step(new, states)
        read = programs.get(
            "read", None, lambda: kernels.inference(self, pure=programs.pure)
        )

        def advance(new, states, written):
            # What stands behind does not change what a causal layer gives before it.
            logits = ops.convert_to_numpy(read(pad_rows([written])))
            return logits[:, len(written) - 1], None

        return advance
