"""Pictures, films, sounds and words as tokens of one Transformer."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor, method_of
from kerasseq.datasets.image_reading import RESIZE
from kerasseq.models.arguments import among, check_memory, checked_arguments
from kerasseq.models.multimodal import describing, drawing, embedding, writing
from kerasseq.models.multimodal.codebook import check_codebook
from kerasseq.models.multimodal.contrast import LOSSES
from kerasseq.models.multimodal.heads import (
    CONTRASTIVE,
    DRAW,
    HEADS,
    ContrastiveHead,
    WordsHead,
    WritingHead,
)
from kerasseq.models.multimodal.kinds import AUDIO, IMAGES, TEXTS
from kerasseq.models.multimodal.network import Network
from kerasseq.models.multimodal.preprocessor import MultimodalPreprocessor, are_inputs
from kerasseq.models.multimodal.rows import MultimodalRows, original_errors
from kerasseq.models.multimodal.sizes import check_sizes
from kerasseq.models.picture_tokenizer.picture_tokenizer import PictureTokenizer
from kerasseq.models.seq2seq.cached_decoding import compiled_method
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.vit import pixels
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.input_rows import check_not_empty
from kerasseq.tasks.labeled_data import learned_rows
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.tasks.saving import as_plain
from kerasseq.text.tokenizers.conversion import AnyTokenizer


@register
class Multimodal(LabeledModel):
    r"""Reads pictures or films, sounds and words as tokens of one Transformer.

    $$
    \begin{aligned}
    z &= [\,x E + E_{\mathrm{pos}} + k_{\mathrm{images}};\;
        a A + A_{\mathrm{pos}} + k_{\mathrm{audio}};\;
        W_{w} + W_{\mathrm{pos}} + k_{\mathrm{texts}}\,] \\
    h &= \mathrm{LayerNorm}(\mathrm{Block}_L(\dots \mathrm{Block}_1(z)))
    \end{aligned}
    $$

    with patches x of pictures or films, frames a of sounds, words w, and a learned
    vector k for each kind. Which tokens see each other depends on the head.

    With `head="contrastive"` each kind sees itself alone. Its vector is the mean of
    the h of its real tokens, projected to D and of length 1. The loss draws vectors of
    a row together and those of different rows apart, for each two kinds of the model;
    rows with the same text are not drawn apart. The loss depends on the batch by
    definition: compare losses of one batch size. Evaluation splits rows into batches
    whose sizes differ by at most one; training leaves out rows that fill no batch.

    With `head="caption"` pictures and sounds see each other, and a word sees them and
    the words before it. The loss is the cross-entropy of the next word.

    With `head="draw"` words see each other, and a token of a picture sees them and the
    tokens before it, row by row. The tokens are the ids of `codebook`, a trained
    `PictureTokenizer` that stays as it is. The loss is the cross-entropy of the next
    id.

    `fit(x, y)` trains on pictures x and texts y. x are arrays `(rows, *image_size,
    channels)`, integers from 0 to 255 or floats from 0 to 1, or a list of them; for
    pictures also files, a folder, or images of pillow, which are resized. For a model
    with `num_mels` and no pictures x are sounds, as for `SpeechRecognizer`; with both,
    a dictionary `{"images": …, "audio": …}`. It may have the "texts" as well, instead
    of y; so may an object with the attributes `images`, `audio` and `texts`.

    Args:
        tokenizer: A fitted tokenizer, or the name of one that `fit` trains on the
            texts, such as "word".
        image_size: Height and width of pictures; frames, height and width of films. One
            number is both sides of a picture. None for a model without pictures, and
            with "draw", where sizes, channels and `resize` are those of the codebook.
        patch_size: Height and width of a patch; with films frames, height and width.
        channels: Number of channels: 1 for gray, 3 for color.
        num_layers: L.
        num_heads: N, number of attention heads.
        hidden_dim: D.
        intermediate_dim: Width of the feed-forward networks; 4 D if None.
        dropout: Fraction to drop in training.
        max_sequence_length: The most tokens of a text.
        num_mels: As for `LogMelSpectrogram`, for a model that reads sounds; else None.
        num_fft_bins: As for `LogMelSpectrogram`.
        stride: As for `LogMelSpectrogram`.
        sampling_rate: Samples a second. Files of other rates are resampled.
        factor: Frames of the spectrogram that become one token: 2, 4 or 8.
        window: Seconds of the longest sound.
        head: "contrastive", "caption" or "draw".
        loss: Of "contrastive": "softmax" as in CLIP, or "sigmoid" as in SigLIP.
        num_experts: Experts in the last block, of half the width, of which each token
            is read by two; None for no experts. A trace has their choices as
            "feed_forward/chosen" of this block, in the order of the tokens.
        codebook: For "draw": a trained `PictureTokenizer`. The model has a frozen copy,
            unless it is frozen.
        resize: How files of another aspect ratio are resized: "crop", "pad" or
            "stretch", see `kerasseq.datasets.read_image`.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: A dictionary as `encode` returns it: "images", "audio" and "lengths",
            those that the model has, and "ids" `(B, T)`, -1 at padding; with "draw"
            "ids" and "codes" `(B, N)`, the start and all ids of a picture but the last.

    Returns:
        With "contrastive" scores `(B, P, B)` of each row with all others, for P pairs
        of kinds; with "caption" logits `(B, T, V)` of the word after each; with "draw"
        `(B, N, K + 1)` of the id after each.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or the patch size does not divide
            the image size.

    Examples:
        >>> images = np.zeros((2, 8, 8, 3), "uint8")
        >>> images[1] = 255
        >>> texts = ["all black", "all white"]
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
        >>> pictures = {"image_size": 8, "patch_size": 4}
        >>> model = Multimodal("word", **pictures, **sizes)
        >>> history = model.fit(images, texts, verbose=0)
        >>> cosines = model.embed_images(images) @ model.embed_texts(texts).T
        >>> cosines.shape
        (2, 2)
        >>> model = Multimodal("word", head="caption", **pictures, **sizes)
        >>> history = model.fit(images, texts, verbose=0)
        >>> isinstance(model.describe(images[0]), str)
        True
        >>> codebook = PictureTokenizer(8, 4, num_codes=5)
        >>> history = codebook.fit(images, verbose=0)
        >>> model = Multimodal("word", head="draw", codebook=codebook, **sizes)
        >>> history = model.fit(images, texts, verbose=0)
        >>> model.draw("all black").shape
        (8, 8, 3)

    References:
        Radford et al. 2021 (CLIP); Zhai et al. 2023 (SigLIP); Zellers et al. 2021
        (MERLOT); Akbari et al. 2021 (VATT); Mustafa et al. 2022 (LIMoE); Ramesh et al.
        2021 (text to image). Slides A.
    """

    task: WordsHead
    preprocessor: MultimodalPreprocessor
    network: Network

    @checked_arguments(
        tokenizer=None,
        head=among(*HEADS),
        loss=among(*LOSSES),
        resize=among(*RESIZE),
    )
    def __init__(
        self,
        tokenizer: AnyTokenizer | str,
        *,
        image_size: int | tuple[int, ...] | None = None,
        patch_size: int | tuple[int, ...] | None = None,
        channels: int = 3,
        num_layers: int = 2,
        num_heads: int = 4,
        hidden_dim: int = 64,
        intermediate_dim: int | None = None,
        dropout: float = 0.0,
        max_sequence_length: int = 32,
        num_mels: int | None = None,
        num_fft_bins: int = 400,
        stride: int = 160,
        sampling_rate: int = 16_000,
        factor: int = 4,
        window: float = 30.0,
        head: str = CONTRASTIVE,
        loss: str = "softmax",
        num_experts: int | None = None,
        codebook: PictureTokenizer | None = None,
        resize: str = "crop",
        **kwargs: Any,
    ) -> None:
        sizes = {"image_size": image_size, "patch_size": patch_size}
        codebook = check_codebook(head, codebook, {**sizes, "num_mels": num_mels})
        arguments = self._arguments
        del arguments["codebook"]  # which `get_config` adds
        if codebook is None:
            image_size, patch_size = check_sizes(image_size, patch_size, num_mels)
            arguments |= {"image_size": image_size, "patch_size": patch_size}
        if head != CONTRASTIVE and loss != "softmax":
            raise ValueError(
                f'loss="{loss}" is for head="contrastive", received head="{head}". '
                "Leave it out"
            )
        if num_experts is not None and num_experts < 2:
            raise ValueError(
                "num_experts must be at least 2, as two read each token, received "
                f"{num_experts}. Choose more, or None for no experts"
            )
        check_memory(arguments)
        # Not an attribute for Keras: its weights are not those of the model.
        vars(self)["_codebook"] = codebook
        preprocessor = MultimodalPreprocessor(arguments, codebook)
        if not preprocessor.is_waiting:
            self.build_layers(arguments, kwargs)
            return
        self.await_fit(arguments, kwargs)
        self.preprocessor, self.task = preprocessor, _head(arguments, preprocessor)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        self.preprocessor = MultimodalPreprocessor(arguments, self.codebook)
        self.task = _head(arguments, self.preprocessor)
        network = Network(arguments, self.preprocessor)
        inputs = network.inputs()
        contrastive = arguments["head"] == CONTRASTIVE
        outputs = (network.pair_scores if contrastive else network.next_tokens)(inputs)
        TaskModel.__init__(self, inputs, outputs, arguments, **options)
        self.network = network

    @method_of(embedding.embed_images)
    def embed_images(self): ...

    @method_of(embedding.embed_texts)
    def embed_texts(self): ...

    @method_of(embedding.embed_audio)
    def embed_audio(self): ...

    @method_of(describing.describe)
    def describe(self): ...

    @method_of(drawing.draw)
    def draw(self): ...

    @method_of(writing.write)
    def write(self): ...

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Tensor:
        if IMAGES in inputs:
            fractions = pixels.as_fractions(inputs[IMAGES], None)
            inputs = {**inputs, IMAGES: fractions}
        return super().call(inputs, training=training, mask=mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "codebook": as_plain(self.codebook)}

    @property
    def codebook(self) -> PictureTokenizer | None:
        """The tokenizer of pictures, frozen; None without one. Files hold it, too."""
        return vars(self)["_codebook"]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of tokens of the model, in the order of their tokens."""
        return self.preprocessor.kinds

    @property
    def temperature(self) -> float | None:
        """The factor of the cosines in the scores, learned; None without them."""
        if self.awaits_fit or self._arguments["head"] != CONTRASTIVE:
            return None
        return float(ops.convert_to_numpy(self.network.scores.scale))

    def check_head(self, method: str, head: str) -> None:
        """Raises if a method is for a model with another head."""
        own = self._arguments["head"]
        if own != head:
            instead = {CONTRASTIVE: "embed_images", DRAW: "draw"}.get(own, "describe")
            raise ValueError(
                f'{method} needs head="{head}", received a model with head="{own}". '
                f"Use {instead}"
            )

    def reading(self, batches: Any) -> Any:
        return original_errors(getattr(batches, "reader", None))

    def encode(self, x: Any, y: Any = None) -> dict[str, np.ndarray]:
        """Returns rows as the arrays that the model reads.

        Args:
            x: As for `fit`, or one row.
            y: The text of each; None for the id before each text.

        Returns:
            "images", "audio" and "lengths", those of the model, and "ids"; with "draw"
            "ids" and "codes".

        Raises:
            TypeError: If an input has the wrong type.
            ValueError: If one is wrong, as for `fit`.
        """
        y = [y] if isinstance(y, str) else y
        x, y, _ = self.weighted_inputs(self.preprocessor.several(x), y, None)
        check_not_empty(x, "encode")
        rows = learned_rows(self, x)
        if y is not None:
            rows.y, _ = self.task.weighted_targets(rows, y)
        return rows.batch()

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x, size = call.x, call.batch_size
        if self._arguments["head"] == DRAW and not are_inputs(x):
            return self.draw(x, batch_size=size)
        if self.awaits_fit or self._arguments["head"] != CONTRASTIVE:
            return super().predicted(call, outputs)
        parts, texts, _ = self.weighted_inputs(self.preprocessor.several(x), None, None)
        if texts is not None:
            parts = {**parts, TEXTS: texts}
        embed = {
            IMAGES: self.embed_images,
            AUDIO: self.embed_audio,
            TEXTS: self.embed_texts,
        }
        return {k: embed[k](part, batch_size=size) for k, part in parts.items()}

    def outputs_of(
        self, rows: MultimodalRows, *, batch_size: int | None = None, **kwargs: Any
    ) -> np.ndarray:
        """Computes the outputs for rows, as `scores_of`."""
        batches = rows.in_order(batch_size or BATCH_SIZE)
        with self.reading(batches):
            return TaskModel.scores_of(self, batches, **kwargs)

    def initial_state(self, inputs: Any, length: int) -> dict[str, Any]:
        """Returns the state before the first of at most `length` tokens.

        Args:
            inputs: What is read before the first token, as `encode` returns it.
            length: The most tokens that are written.
        """
        start = compiled_method(self, "start_writing", casts=False, length=length)
        return start({k: ops.convert_to_tensor(inputs[k]) for k in self.network.read})

    def start_writing(self, inputs: dict[str, Tensor], length: int) -> dict[str, Any]:
        """Computes `initial_state` with the layers."""
        return self.network.start(inputs, length)

    @functools.cached_property
    def step(self) -> TargetStep:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", self.preprocessor.never_written)

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the id after `token` `(B,)`, and the state."""
        return self.network.step(state, token)


def _head(arguments: Config, preprocessor: MultimodalPreprocessor) -> WordsHead:
    """Returns the head of a model with these arguments."""
    if arguments["head"] == CONTRASTIVE:
        return ContrastiveHead(preprocessor, arguments["loss"])
    return WritingHead(preprocessor)
