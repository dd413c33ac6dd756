"""Word vectors: CBOW, skip-gram with negative sampling, and GloVe."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import arguments, checks, synonyms
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.types import Config, Nested, Tensor
from kerasseq.vectors import steps as vector_steps
from kerasseq.vectors.batches import CountBatches, WindowBatches
from kerasseq.vectors.cooccurrences import cooccurrences
from kerasseq.vectors.corpus import (
    Sentences,
    count_known,
    id_chunks,
    vocabulary,
)
from kerasseq.vectors.embedding import EmbeddingTransfer
from kerasseq.vectors.exchange import VectorExchange, checked_vocabulary
from kerasseq.vectors.queries import VectorQueries
from kerasseq.vectors.windows import BLOCK

METHODS = ("skip_gram", "cbow", "glove")
# Those of word2vec and of GloVe.
LEARNING_RATES = {"skip_gram": 0.025, "cbow": 0.05, "glove": 0.05}
CHECKED_EVERY = 50  # batches, for a loss that is not finite
BATCH_SIZES = {"skip_gram": 256, "cbow": 256, "glove": 1024}


@register
class WordVectors(EmbeddingTransfer, VectorExchange, VectorQueries, keras.Model):
    r"""A vector for each word of a text, learned from the words around it.

    Skip-gram predicts each context $o$ of a word $c$, and CBOW the word from the mean
    $h$ of its contexts, each beside $K$ negative words $k$ that are drawn with
    probabilities proportional to $n^{3/4}$; GloVe fits the logarithms of the counts
    $X_{ij}$ of co-occurrences.

    | method | loss |
    |---|---|
    | skip-gram | $-\log \sigma(u_o \cdot v_c) - \sum_k \log \sigma(-u_k \cdot v_c)$ |
    | CBOW | $-\log \sigma(u_c \cdot h) - \sum_k \log \sigma(-u_k \cdot h)$ |
    | GloVe | $f(X_{ij}) (w_i \cdot \tilde w_j + b_i + \tilde b_j - \log X_{ij})^2$ |

    Only the rows of the tables that occur in a batch are updated: of $v$ and $u$ by
    gradient descent whose learning rate falls linearly, of GloVe's by AdaGrad. The
    vectors are $v$, of GloVe $w + \tilde w$. The negative words of a word are shared by
    its contexts. Words of a batch are updated together, from the same vectors.

    Called with ids, the model returns their vectors, like an embedding layer.

    Args:
        method: `"skip_gram"`, `"cbow"` or `"glove"`.
        dimensions: Size of a vector.
        window: Largest distance of a context. For each word a distance from 1 to this
            one is drawn; GloVe takes all, with weights 1 / distance.
        negatives: Number of negative words, not for GloVe.
        min_count: Words that are rarer in the text of the first `fit` are left out.
        max_words: Maximum number of words, the most frequent. None keeps all.
        subsample: The threshold $t$: a word of relative frequency $f$ is kept with
            probability $\min(1, \sqrt{t / f})$. None keeps all words. Not for GloVe.
        x_max: For GloVe: counts above have the weight 1.
        alpha: For GloVe: smaller counts have the weight $(X / x_{max})^\alpha$.
        lowercase: Whether strings are converted to lowercase.
        punctuation: Whether punctuation characters are words.
        words: The vocabulary, for a model that need not learn it.
        seed: Seed of the first vectors, the windows and the negative words.
        **kwargs: `name`, `trainable` and `dtype`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> text = ["the cat sat on the mat", "the dog sat on the rug"] * 30
        >>> model = WordVectors(dimensions=7, min_count=1, subsample=None)
        >>> history = model.fit(text, epochs=2, verbose=0)
        >>> len(model.words), model.vector("cat").shape
        (7, (7,))
        >>> [neighbor.word for neighbor in model.nearest("cat", 6)][-1] in model.words
        True
        >>> keras.ops.shape(model(np.array([[0, 3]])))
        (1, 2, 7)
    """

    if not TYPE_CHECKING:  # a checker would take each name for an attribute
        __getattr__ = checks.attribute_hints(keras.Model, synonyms.VECTORS)

    def __init__(
        self,
        method: str = "skip_gram",
        dimensions: int = 100,
        *,
        window: int = 5,
        negatives: int = 5,
        min_count: int = 5,
        max_words: int | None = None,
        subsample: float | None = 1e-3,
        x_max: float = 100.0,
        alpha: float = 0.75,
        lowercase: bool = True,
        punctuation: bool = False,
        words: Iterable[str] | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        arguments.refuse_synonyms(self, kwargs)
        super().__init__(**kwargs)
        check_float64(self)
        self.method: str = checks.one_of("method", method, METHODS)
        self.dimensions: int = checks.size("dimensions", dimensions)
        self.window: int = checks.size("window", window, 2)
        self.negatives: int = checks.size("negatives", negatives, 256, 8)  # of a batch
        self.min_count: int = checks.size("min_count", min_count)
        self.max_words: int | None = checks.optional(
            checks.size, "max_words", max_words
        )
        self.subsample: float | None = checks.optional(
            checks.positive, "subsample", subsample
        )
        self.x_max: float = checks.positive("x_max", x_max)
        self.alpha: float = checks.positive("alpha", alpha)
        self.lowercase: bool = checks.truth("lowercase", lowercase)
        self.punctuation: bool = checks.truth("punctuation", punctuation)
        self.seed: int = checks.seed("seed", seed)
        self.words: list[str] = []
        self.index: dict[str, int] = {}
        if words is not None:
            self._set_words(checked_vocabulary(words))
        self.compile()

    def _set_words(self, words: list[str]) -> None:
        """Takes a vocabulary, and builds the tables."""
        checks.fits_memory("dimensions", self.dimensions, 2 * len(words))
        self.words = words
        self.index = {word: number for number, word in enumerate(words)}
        V, D = len(words), self.dimensions
        seeds = np.random.SeedSequence(self.seed).generate_state(2) % 2**31
        first, second = (
            keras.initializers.RandomUniform(-0.5 / D, 0.5 / D, seed=int(seed))
            for seed in seeds
        )
        glove = self.method == "glove"
        self.v: keras.Variable = self.add_weight(
            shape=(V, D), initializer=first, name="v"
        )
        self.u: keras.Variable = self.add_weight(
            shape=(V, D), initializer=second if glove else "zeros", name="u"
        )
        if glove:
            self.biases: list[keras.Variable] = [
                self.add_weight(shape=(V,), initializer="zeros", name=name)
                for name in ("b_v", "b_u")
            ]
            # AdaGrad's sums of squared gradients.
            self.squares: list[keras.Variable] = [
                self.add_weight(
                    shape=table.shape,
                    initializer="ones",
                    trainable=False,
                    name=f"squares_{table.name}",
                )
                for table in (self.v, self.u, *self.biases)
            ]
        self.built = True

    @property
    def matrix(self) -> np.ndarray:
        """The vectors of the words, `(words, D)`."""
        self._check_words()
        v = self.v.value
        return ops.convert_to_numpy(v + self.u.value if self._is_sum else v)

    @property
    def _is_sum(self) -> bool:
        return self.method == "glove"

    def _check_words(self) -> None:
        if not self.words:
            raise ValueError(
                "the model has no words yet: call `fit` with a text, or pass `words`"
            )

    def call(self, ids: Tensor) -> Tensor:
        """Returns the vectors of ids, `(*ids.shape, D)`."""
        self._check_words()
        ids = ops.cast(ids, "int32")
        vectors = kernels.take_rows(self.v, ids)
        if self._is_sum:
            vectors = vectors + kernels.take_rows(self.u, ids)
        return ops.cast(vectors, self.compute_dtype)

    def compile(self, learning_rate: float | None = None, **kwargs: Any) -> None:
        """Configures training. The update is that of the method.

        Args:
            learning_rate: The first learning rate. By default 0.025 for skip-gram, 0.05
                for CBOW and GloVe.
            **kwargs: `jit_compile` and `run_eagerly`, as for `keras.Model.compile`.

        Raises:
            TypeError: If the learning rate is not a number, as an optimizer.
        """
        if learning_rate is None:
            learning_rate = LEARNING_RATES[self.method]
        rate = checks.positive("learning_rate", learning_rate)
        if unknown := sorted(kwargs.keys() - {"jit_compile", "run_eagerly"}):
            raise TypeError(
                "compile takes learning_rate, jit_compile and run_eagerly, received "
                f"{', '.join(unknown)}: loss and update are those of the method"
            )
        kwargs.setdefault("jit_compile", keras.backend.backend() == "jax")
        if kwargs.get("run_eagerly"):
            kwargs["jit_compile"] = False
        self._rate = rate
        super().compile(keras.optimizers.SGD(rate), auto_scale_loss=False, **kwargs)

    def get_compile_config(self) -> Config:
        """Returns the learning rate: all else depends on the backend."""
        return {"learning_rate": self._rate}

    def compile_from_config(self, config: Config) -> None:
        """Compiles a loaded model as it was."""
        self.compile(config["learning_rate"])

    def fit(
        self,
        x: Any = None,
        *,
        epochs: int = 5,
        batch_size: int | None = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        encoding: str = "utf-8",
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Learns the vectors from a text.

        The first call learns the vocabulary; later ones train the same words further.
        Ctrl-C stops training; the vectors stay as far as they are trained.

        Args:
            x: A file as `pathlib.Path`, also compressed by gzip, which is read line by
                line and never has to fit into memory; a text as string, each line of
                which is a sentence; a list of strings, or of lists of words. Contexts
                do not cross sentences.
            epochs: Index of the last epoch: an epoch is a pass over the text.
            batch_size: Words of an update, or for GloVe co-occurrences. By default 256,
                and 1024 for GloVe.
            initial_epoch: Epoch at which to start.
            steps_per_epoch: Batches in an epoch, of up to 16 updates. A whole pass if
                None.
            encoding: Encoding of a file.
            **kwargs: As for `keras.Model.fit`: `verbose`, `callbacks`.

        Returns:
            The `keras.callbacks.History`, with the loss of each epoch: the mean for a
            context, for a word (CBOW), or for a co-occurrence.

        Raises:
            TypeError: If the text has another type, or can be read only once.
            ValueError: If it is empty, or has fewer than two words that are frequent
                enough; or if the loss becomes infinite.
        """
        if isinstance(x, Iterator):
            x = _checked_stream(x)
        else:
            batches = self.batches(
                x, epochs=epochs, batch_size=batch_size, encoding=encoding
            )
            steps_per_epoch = steps_per_epoch or batches.steps_per_epoch
            if isinstance(batches, WindowBatches):
                batches.steps = epochs * steps_per_epoch
            x = batches.stream(initial_epoch * steps_per_epoch)
        kwargs["shuffle"] = False  # the batches are random already
        others = kwargs.pop("callbacks", None) or []
        others = others if isinstance(others, list | tuple) else [others]
        kwargs["callbacks"] = [*others, _StopIfDiverged()]
        with kernels.keep_variables(self):
            return super().fit(
                x,
                epochs=epochs,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                **kwargs,
            )

    def batches(
        self,
        x: Any,
        *,
        epochs: int = 5,
        batch_size: int | None = None,
        encoding: str = "utf-8",
    ) -> WindowBatches | CountBatches:
        """Reads a text and prepares its batches. The first call learns the vocabulary.

        `fit` accepts their `stream(start)` in place of the text, with
        `steps_per_epoch`, for training that is resumed within an epoch.

        Args:
            x: As for `fit`.
            epochs: Number of epochs in which the learning rate falls.
            batch_size: As for `fit`.
            encoding: As for `fit`.

        Returns:
            An object with `stream` and `steps_per_epoch`.
        """
        epochs = checks.size("epochs", epochs)
        size = batch_size or BATCH_SIZES[self.method]
        size = checks.size("batch_size", size)
        options = {"lowercase": self.lowercase, "punctuation": self.punctuation}
        sentences = Sentences(x, encoding=encoding, **options)
        if self.words:
            counts = count_known(sentences, self.words)
        else:
            words, counts = vocabulary(sentences, self.min_count, self.max_words)
            self._set_words(words)
        if self.method == "glove":
            chunks = id_chunks(sentences, self.index)
            counted = cooccurrences(chunks, len(self.words), self.window)
            options = {"x_max": self.x_max, "alpha": self.alpha}
            return CountBatches(counted, batch_size=size, seed=self.seed, **options)
        if size % BLOCK:
            raise ValueError(
                f"batch_size must be a multiple of {BLOCK}, received {size}. Choose, "
                f"for example, {-(-size // BLOCK) * BLOCK}"
            )
        return WindowBatches(
            sentences,
            self.index,
            counts,
            method=self.method,
            window=self.window,
            negatives=self.negatives,
            subsample=self.subsample,
            batch_size=size,
            epochs=epochs,
            seed=self.seed,
        )

    def train_step(self, *args: Nested) -> Nested:
        """Makes the updates of a batch."""
        self._check_words()
        step = self._glove_step if self.method == "glove" else self._sampled_step
        return kernels.train_steps(self, lambda data: step(data[0]), *args)

    def _sampled_step(self, batch: dict[str, Tensor]) -> None:
        """Returns an update of skip-gram or CBOW."""
        skip_gram = self.method == "skip_gram"
        of_centers, of_contexts = (self.v, self.u) if skip_gram else (self.u, self.v)
        i, j, k = batch["centers"], batch["contexts"], batch["negatives"]
        m, a = (ops.cast(batch[n], self.v.dtype) for n in ("mask", "weights"))
        loss = vector_steps.skip_gram if skip_gram else vector_steps.cbow
        J, d_i, d_j, d_k = loss(
            kernels.take_rows(of_centers, i),
            kernels.take_rows(of_contexts, j),
            kernels.take_rows(self.u, k),
            m,
            a,
        )
        eta = self._learning_rate(batch["rate"])
        kernels.add_to_rows(of_centers, i, -eta * d_i)
        kernels.add_to_rows(of_contexts, j, -eta * d_j)
        kernels.add_to_rows(self.u, k, -eta * d_k)
        count = ops.sum(m) if skip_gram else ops.sum(ops.max(m, axis=-1))
        self._finish(J, count)

    def _glove_step(self, batch: dict[str, Tensor]) -> None:
        r"""Updates by AdaGrad: $g^2$ is added to $G$, then $-\eta g / \sqrt G$."""
        rows = (batch["words"], batch["contexts"]) * 2
        tables = (self.v, self.u, *self.biases)
        f, log_x = (ops.cast(batch[n], self.v.dtype) for n in ("weights", "log_counts"))
        values = [kernels.take_rows(t, r) for t, r in zip(tables, rows, strict=True)]
        J, d_w, d_b = vector_steps.glove(*values, f, log_x)
        eta = self._learning_rate(1.0)
        for table, G, r, g in zip(
            tables, self.squares, rows, (*d_w, d_b, d_b), strict=True
        ):
            kernels.add_to_rows(G, r, g * g)
            step = -eta * g / ops.sqrt(kernels.take_rows(G, r))
            kernels.add_to_rows(table, r, step)
        self._finish(J, ops.cast(ops.size(f), f.dtype))

    def _learning_rate(self, factor: Any) -> Tensor:
        return ops.cast(self.optimizer.learning_rate, self.v.dtype) * ops.cast(
            factor, self.v.dtype
        )

    def _finish(self, loss: Tensor, count: Tensor) -> None:
        """Counts an update, and its mean loss."""
        self.metrics[0].update_state(loss / ops.maximum(count, 1), count)
        self.optimizer.iterations.assign_add(1)

    def get_config(self) -> Config:
        """Returns the arguments, with the vocabulary."""
        names = (
            *("method", "dimensions", "window", "negatives", "min_count", "max_words"),
            *("subsample", "x_max", "alpha", "lowercase", "punctuation", "seed"),
        )
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "words": self.words or None,
            **{name: getattr(self, name) for name in names},
        }


class _StopIfDiverged(keras.callbacks.Callback):
    """Raises if the loss is not finite, as after too large updates of one row."""

    def on_train_batch_end(self, batch: int, logs: Config | None = None) -> None:
        if batch % CHECKED_EVERY == 0:
            self._check(logs)

    def on_epoch_end(self, epoch: int, logs: Config | None = None) -> None:
        self._check(logs)

    def _check(self, logs):
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            raise ValueError(
                f"training diverged: the loss is {loss}. The words of a batch are "
                "updated together, so that frequent words take large steps. Lower "
                "batch_size, or the learning rate of `compile`, or set `subsample`; "
                "and build the model anew"
            )


def _checked_stream(stream: Iterator[Any]) -> Iterator[Any]:
    """Returns a stream of batches as a generator, which Keras knows."""
    first = next(stream, None)
    batch = first[0] if isinstance(first, tuple) and first else None
    if not isinstance(batch, dict) or "weights" not in batch:
        raise TypeError(
            "a text is read several times, received an iterator, which can be read "
            "once. Pass a list, a pathlib.Path, or an object that can be iterated again"
        )
    return (item for item in itertools.chain([first], stream))
