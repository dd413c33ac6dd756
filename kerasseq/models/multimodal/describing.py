"""`describe`: the captions that a model writes, word by word."""

from typing import Any

from kerasseq import decoding
from kerasseq.core import arguments, checks
from kerasseq.models.multimodal.rows import original_errors
from kerasseq.models.multimodal.writing import sampler_of
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.labeled_data import inputs_of, learned_rows


@checks.only_listed(arguments.check_names)
def describe(
    model: Any,
    x: Any,
    *,
    max_length: int | None = None,
    sampler: decoding.Sampler | decoding.Beam | str | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> str | list[str]:
    """Writes a caption for each picture, film or sound.

    No caption has the token of unknown words, nor special tokens such as `<pad>`.

    Args:
        model: The model.
        x: Pictures or sounds, or a dictionary of both, as for `fit`; or one row.
        max_length: The most tokens of a caption; `max_sequence_length` if None.
        sampler: As for `GPT.generate`; greedy if None.
        temperature: As for `GPT.generate`.
        top_k: As for `GPT.generate`.
        top_p: As for `GPT.generate`.
        min_p: As for `GPT.generate`.
        seed: Seed of the draws; those of a row depend on its index alone.
        batch_size: Rows that are processed at once.

    Returns:
        A caption for one row, else a list of them.

    Raises:
        ValueError: If the model has another head, `max_length` is above
            `max_sequence_length`, or a row is wrong, as for `fit`.
    """
    model.check_head("describe", "caption")
    own = model.preprocessor
    sampler = sampler_of(
        "describe",
        sampler,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
    )
    length = own.longest if max_length is None else max_length
    if checks.whole_number("max_length", length) > own.longest:
        raise ValueError(
            f"max_length must be at most max_sequence_length={own.longest}, "
            f"received {max_length}. Build the model with a larger "
            "max_sequence_length"
        )
    one = own.is_one(x)
    rows = learned_rows(model, inputs_of(model, own.several(x)))
    options = {"length": length, "sampler": sampler, "stop": (own.end,)}
    options |= {"seed": seed, "batch_size": batch_size}
    with original_errors(rows.reader):
        written = model.write(rows.inputs, len(rows), **options)
    texts = [own.tokenizer.decode([i for i in ids if i < own.start]) for ids in written]
    return texts[0] if one else texts
