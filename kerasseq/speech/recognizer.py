"""A model from sounds to texts: log-mel frames, an encoder, and CTC."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.dense import Dense
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Config, one_or_several
from kerasseq.decoding.ctc import CTCResult, ctc_greedy
from kerasseq.decoding.ctc_align import ctc_align
from kerasseq.decoding.ctc_beam import ctc_beam
from kerasseq.speech.audio_inputs import AudioPreprocessor
from kerasseq.speech.conformer import ConformerBlock
from kerasseq.speech.conv_subsampling import ConvSubsampling
from kerasseq.speech.ctc_head import CTCHead
from kerasseq.speech.log_mel import LogMelSpectrogram
from kerasseq.speech.real_samples import RealSamples
from kerasseq.speech.sound_norm import SoundNormalization
from kerasseq.speech.windows import joined, windows_of
from kerasseq.tasks.architectures import ARCHITECTURES, build_layers, first_output
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.input_rows import is_empty_list
from kerasseq.tasks.labeled_data import inputs_of, learned_rows
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.text.classical.ngram import NGramModel
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.training.error_rates import character_error_rate, word_error_rate

CONFORMER = "conformer"


class Transcript(NamedTuple):
    """What a model writes down of a sound.

    Attributes:
        text: The text.
        log_probability: Its log-probability, given the sound; without search that of
            its best path.
        tokens: The tokens of the text.
        times: The first and the last second of each token, `(tokens, 2)`.
    """

    text: str
    log_probability: float
    tokens: list[str]
    times: np.ndarray


class ErrorRates(NamedTuple):
    """How far transcripts are from the right ones.

    Attributes:
        characters: Edit distance per character.
        words: Edit distance per word.
    """

    characters: float
    words: float


@register
class SpeechRecognizer(LabeledModel):
    r"""Transcribes sounds; it learns from texts without times.

    $$
    \begin{aligned}
    H &= \mathrm{Encoder}(\mathrm{Subsampling}(\mathrm{Norm}(\mathrm{LogMel}(x)))) \\
    y_t &= W h_t + b \qquad L = -\log p(\mathrm{text} \mid y)
    \end{aligned}
    $$

    The frames of each sound have mean 0 and variance 1.

    Sounds are arrays `(samples,)` of floats from -1 to 1 at `sampling_rate`, WAV files,
    or rows of the package datasets with "array" and "sampling_rate". Sounds of any
    lengths are padded to a few, as each new one is compiled; padding changes nothing.
    In `predict` and `transcribe` sounds longer than `window` seconds are read in
    windows that overlap.

    Args:
        architecture: "conformer", a name as for `SequenceTagger`, or a layer with
            outputs `(batch, time, units)`.
        tokenizer: A fitted tokenizer, or the name of one that `fit` trains on the
            transcripts.
        units: Width of each layer.
        num_layers: Number of layers or blocks.
        num_heads: Heads of the attention of a Conformer.
        kernel_size: Frames that the convolution of a Conformer reads.
        normalization: Of the convolution of a Conformer: "layer" or "batch".
        factor: Spectrogram frames that become one: 2, 4 or 8.
        bidirectional: For another architecture: whether an output may depend on later
            frames.
        dropout: Dropout rate of each layer.
        spec_augment: A `SpecAugment` that masks parts of the spectrogram in training,
            or None.
        num_mels: As for `LogMelSpectrogram`.
        num_fft_bins: As for `LogMelSpectrogram`.
        stride: As for `LogMelSpectrogram`.
        sampling_rate: Samples a second. Files of other rates are resampled.
        window: Seconds that are read at once in `predict`.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a name or number is wrong, or if the layer has no output at each
            step.

    Examples:
        >>> model = SpeechRecognizer("gru", units=5, num_mels=7, sampling_rate=800,
        ...     num_fft_bins=32, stride=8)
        >>> sound = np.sin(np.arange(1000))
        >>> history = model.fit([sound, sound[:500]], ["hello", "so"], verbose=0)
        >>> isinstance(model.transcribe(sound).text, str)
        True

    References:
        Graves et al. 2006; Gulati et al. 2020. Slides A.
    """

    task: CTCHead
    preprocessor: AudioPreprocessor

    def __init__(
        self,
        architecture: str | keras.Layer = CONFORMER,
        tokenizer: AnyTokenizer | str = "character",
        *,
        units: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        kernel_size: int = 31,
        normalization: str = "layer",
        factor: int = 4,
        bidirectional: bool = True,
        dropout: float = 0.0,
        spec_augment: keras.Layer | None = None,
        num_mels: int = 80,
        num_fft_bins: int = 400,
        stride: int = 160,
        sampling_rate: int = 16_000,
        window: float = 30.0,
        **kwargs: Any,
    ) -> None:
        if isinstance(architecture, str):
            names = (CONFORMER, *ARCHITECTURES)
            checks.one_of("architecture", architecture, names)
        arguments = {
            "architecture": architecture,
            "tokenizer": tokenizer,
            "units": checks.size("units", units, 5),
            "num_layers": checks.whole_number("num_layers", num_layers),
            "num_heads": num_heads,
            "kernel_size": kernel_size,
            "normalization": normalization,
            "factor": factor,
            "bidirectional": checks.flag("bidirectional", bidirectional),
            "dropout": checks.rate("dropout", dropout),
            "spec_augment": spec_augment,
            "num_mels": num_mels,
            "num_fft_bins": num_fft_bins,
            "stride": checks.size("stride", stride, 1),
            "sampling_rate": sampling_rate,
            "window": checks.positive("window", window),
        }
        if spec_augment is not None and not isinstance(spec_augment, keras.Layer):
            raise TypeError(
                "spec_augment must be a layer such as SpecAugment(), or None, received "
                f"{checks.short(spec_augment)}"
            )
        preprocessor = AudioPreprocessor(arguments)
        if not preprocessor.is_waiting:
            self.build_layers(arguments, kwargs)
            return
        self.await_fit(arguments, kwargs)
        self.preprocessor, self.task = preprocessor, CTCHead(preprocessor)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        self.preprocessor = AudioPreprocessor(arguments)
        self.task = CTCHead(self.preprocessor)
        inputs = {
            "audio": keras.Input((None,), dtype="float32", name="audio"),
            "lengths": keras.Input((), dtype="int32", name="lengths"),
        }
        x = RealSamples(name="real_samples")(inputs)
        names = ("num_mels", "num_fft_bins", "stride", "sampling_rate")
        sizes = {name: arguments[name] for name in names}
        x = LogMelSpectrogram(**sizes, name="log_mel")(x)
        x = SoundNormalization(name="normalization")(x)
        if arguments["spec_augment"] is not None:
            x = arguments["spec_augment"](x)
        x = ConvSubsampling(
            arguments["units"], arguments["factor"], name="subsampling"
        )(x)
        for layer in encoder_layers(arguments):
            x = first_output(layer(x))
        if len(x.shape) != 3:
            raise ValueError(
                "SpeechRecognizer needs a layer with outputs (batch, time, units), "
                f"received {layer.name} with {x.shape}: build it with "
                "return_sequences=True"
            )
        # Scores and losses are float32 in mixed precision as well.
        tokens = self.preprocessor.tokenizer.vocabulary_size
        scores = Dense(tokens + 1, dtype=scores_dtype(), name="output")(x)
        TaskModel.__init__(self, inputs, scores, arguments, **options)

    def scores_of(self, x: Any, **kwargs: Any) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        return [] if is_empty_list(x) else super().scores_of(x, **kwargs)

    def outputs_of(
        self, rows: Any, *, batch_size: int | None = None, **kwargs: Any
    ) -> list[np.ndarray]:
        """Computes the scores of each sound, `(frames, tokens + 1)`, by windows."""
        size = batch_size or BATCH_SIZE
        windows = windows_of(self, rows)
        batches = windows.rows.in_order(size)
        outputs: list[Any] = [None] * len(windows.rows)
        for n in range(len(batches)):
            (x,) = batches[n]
            scores = TaskModel.scores_of(self, x, batch_size=size, **kwargs)
            frames = self.preprocessor.frames(x["lengths"])
            for place, row in enumerate(batches.parts[n]):
                outputs[row] = scores[place, : frames[place]]
        return joined(windows, outputs)

    @one_or_several(Transcript)
    def transcribe(
        self,
        x: Any,
        *,
        beam: int | None = None,
        language_model: NGramModel | None = None,
        weight: float = 0.5,
        bonus: float = 0.0,
        batch_size: int = BATCH_SIZE,
    ) -> Transcript | list[Transcript]:
        """Transcribes sounds.

        Args:
            x: A sound, or several as for `fit`.
            beam: Number of prefixes that a search keeps; None reads the best path.
            language_model: A fitted `text.NGramModel` with the tokenizer of the model,
                for the search.
            weight: How much it counts.
            bonus: What each token adds: a language model favors short texts.
            batch_size: Sounds that are processed at once.

        Returns:
            A `Transcript` for one sound, else a list of them.

        Raises:
            ValueError: If an argument is out of range, there is a language model or a
                bonus without a beam, or the language model has another tokenizer.
        """
        for name, value in {"language_model": language_model, "bonus": bonus}.items():
            if beam is None and value:
                raise ValueError(
                    f"{name} needs a search, received beam=None. Choose a beam, such "
                    "as 16"
                )
        self._check_language_model(language_model)
        one = self.preprocessor.is_one(x)
        sounds = self.preprocessor.several(inputs_of(self, x))
        transcripts = []
        for scores in self.scores_of(sounds, batch_size=batch_size, verbose=0):
            if beam is None:
                result = ctc_greedy(scores[None])
            else:
                result = ctc_beam(
                    scores[None], None, beam, language_model, weight, bonus
                )
            transcripts.append(self._transcript(result))
        return transcripts[0] if one else transcripts

    def _check_language_model(self, language_model):
        """Raises if a language model has other tokens; the search checks the rest."""
        tokenizer = getattr(language_model, "tokenizer", None)
        if tokenizer is None:
            return
        own, other = self.tokenizer.vocabulary, tokenizer.vocabulary
        if own != other:
            raise ValueError(
                "language_model must have the tokenizer of the model, with the "
                f"tokens {checks.short(own)}, received {checks.short(other)}. Fit "
                "it with tokenizer=model.tokenizer"
            )

    def align(self, x: Any, text: str) -> Transcript:
        """Finds when each token of a known text is heard.

        Args:
            x: A sound.
            text: Its text.

        Returns:
            A `Transcript` of the text, on its best path.

        Raises:
            ValueError: If the text does not fit into the sound, or has characters that
                the tokenizer does not know.
        """
        rows = learned_rows(self, self.preprocessor.several(x))
        (ids,) = self.task.targets_of(rows, [text])
        (scores,) = self.outputs_of(rows, verbose=0)
        alignment = ctc_align(scores[None], [ids])
        return self._transcript(
            CTCResult(
                ids[None],
                np.array([len(ids)]),
                alignment.log_probabilities,
                alignment.frames,
            )
        )

    def _transcript(self, result):
        count = int(result.lengths[0])
        ids = result.ids[0, :count]
        a = self._arguments
        seconds = a["stride"] * a["factor"] / a["sampling_rate"]
        return Transcript(
            self.tokenizer.decode(ids),
            float(result.log_probabilities[0]),
            [self.tokenizer.decode([token]) for token in ids.tolist()],
            result.frames[0, :count] * seconds,
        )

    def error_rates(
        self, x: Any, y: Iterable[str] | None = None, **options: Any
    ) -> ErrorRates:
        """Compares transcripts with the right ones.

        Args:
            x: Sounds, as for `fit`.
            y: The right transcripts; None if `x` has them.
            **options: As for `transcribe`.

        Returns:
            Edit distances, per character and per word.

        Raises:
            ValueError: If there are no sounds, or a transcript is empty.
        """
        x, y, _ = self.weighted_inputs(x, y, None)
        if y is None:
            raise ValueError(f"{self.task.wanted}, received y=None")
        texts = [transcript.text for transcript in self.transcribe(x, **options)]
        return ErrorRates(character_error_rate(texts, y), word_error_rate(texts, y))


def encoder_layers(arguments: Config) -> list[keras.Layer]:
    """Returns the layers of an architecture between frames and scores."""
    architecture = arguments["architecture"]
    if not isinstance(architecture, str) or architecture != CONFORMER:
        names = ("architecture", "units", "num_layers", "bidirectional", "dropout")
        return build_layers(**{name: arguments[name] for name in names})
    return [
        ConformerBlock(
            4 * arguments["units"],
            arguments["num_heads"],
            arguments["kernel_size"],
            dropout=arguments["dropout"],
            normalization=arguments["normalization"],
            name=f"conformer_{n}",
        )
        for n in range(1, arguments["num_layers"] + 1)
    ]
