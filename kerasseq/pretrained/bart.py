"""BART and mBART, such as BARThez: settings and tables of names."""

import pathlib
from typing import Any

from kerasseq.models.seq2seq.bart import BART as MODEL
from kerasseq.models.seq2seq.bart import END, FIRST, PADDING
from kerasseq.pretrained import folders, two_stacks
from kerasseq.pretrained.family import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    Arguments,
    Family,
    Format,
    Shapes,
    block_sizes,
    difference,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import (
    Row,
    layer_norm,
    skip_rows,
    weight,
    within,
)
from kerasseq.pretrained.tokenizers import with_tokenizer

UNUSED = 2  # rows of the positions of the file, before the first
GENERATION = "generation_config.json"

# Letters: V vocabulary, T positions, D hidden, N heads, K per head, F intermediate.


ENCODER, DECODER = two_stacks.blocks(key_bias=True)
EMBEDDING = weight("shared.weight", "embedding/embeddings", "V D")
LOGIT_BIAS = weight("final_logits_bias", "logit_bias/bias", "V", "1 V")


def _stack(name: str, block: list[Row], placement: str) -> list[Row]:
    """Returns the rows of encoder or decoder."""
    positions, ours = (
        f"{name}.embed_positions.weight",
        f"{name}_position_embedding/embeddings",
    )
    final = layer_norm(f"{name}.layer_norm", f"{name}_final_norm")
    return [
        weight(positions, ours, "T D", transform=skip_rows(UNUSED)),
        *layer_norm(f"{name}.layernorm_embedding", f"{name}_embedding_norm"),
        *within(f"{name}.layers.{{n}}.", f"{name}_block_{{n}}/", block),
        *(final if placement == "pre" else []),
    ]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of a `BART` in Hugging Face."""
    return [
        EMBEDDING,
        *_stack("encoder", ENCODER, a["norm_placement"]),
        *_stack("decoder", DECODER, a["norm_placement"]),
        LOGIT_BIAS,
    ]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "V": a["vocabulary_size"],
        "T": a["max_sequence_length"],
        **block_sizes(a),
    }


def _mismatch(placement):
    """Returns the function that tells why a `BART` is not of one of the families."""

    def mismatch(a: Arguments) -> str | None:
        if a["feed_forward"] not in ACTIVATION_NAMES:
            return f"feed_forward={a['feed_forward']!r}"
        return difference(a, {"norm_placement": placement})

    return mismatch


def _read(placement):
    """Returns the function that converts settings of Hugging Face to arguments."""
    is_pre = placement == "pre"

    def read(settings: Settings, shapes: Shapes) -> Arguments:
        settings.require(
            bos_token_id=FIRST,
            pad_token_id=PADDING,
            eos_token_id=END,
            normalize_before=is_pre,
            normalize_embedding=True,
            add_final_layer_norm=is_pre,
            static_position_embeddings=False,
            tie_word_embeddings=True,
        )
        shared = two_stacks.read(settings)
        return {
            **shared,
            "max_sequence_length": settings.whole("max_position_embeddings", 1024),
            "dropout": settings.rate("dropout", 0.1),
            "feed_forward": settings.word("activation_function", ACTIVATIONS, "gelu"),
            "norm_placement": placement,
            "scale_embeddings": settings.boolean("scale_embedding", False),
            **_decoding(settings, shared["vocabulary_size"]),
        }

    return read


def _decoding(settings: Settings, size: int, start: int = END) -> Arguments:
    """Returns the arguments of `BART` that concern decoding."""
    first, forced = None, "forced_bos_token_id"
    if forced in settings:
        first = settings.id(forced, size, None)
    return {
        "start_id": settings.id("decoder_start_token_id", size, start),
        "first_id": first,
    }


def complete(folder: pathlib.Path, source: str, arguments: Arguments) -> Arguments:
    """Returns the arguments of a `BART` with those of its other files."""
    path = folder / GENERATION
    if path.exists():
        settings = Settings(folders.read_table(path), path)
        size, start = arguments["vocabulary_size"], arguments["start_id"]
        decoding = _decoding(settings, size, start)
        if decoding["first_id"] is None:
            decoding["first_id"] = arguments["first_id"]
        arguments = {**arguments, **decoding}
    return with_tokenizer(folder, source, arguments)


def _write(name):
    """Returns the function that converts arguments to settings of Hugging Face."""

    def write(a: Arguments) -> dict[str, Any]:
        s, is_pre = sizes(a), a["norm_placement"] == "pre"
        return {
            "architectures": [f"{name}ForConditionalGeneration"],
            **two_stacks.write(a, s),
            "max_position_embeddings": s["T"],
            "activation_function": ACTIVATION_NAMES[a["feed_forward"]],
            "normalize_before": is_pre,
            "normalize_embedding": True,
            "add_final_layer_norm": is_pre,
            "scale_embedding": a["scale_embeddings"],
            **_ids(a),
        }

    return write


def _ids(a: Arguments) -> dict[str, int]:
    """Returns the special ids as settings of Hugging Face."""
    first = a["first_id"]
    return {
        "bos_token_id": FIRST,
        "pad_token_id": PADDING,
        "eos_token_id": END,
        "decoder_start_token_id": a["start_id"],
        **({} if first is None else {"forced_bos_token_id": first}),
    }


def write_files(folder: pathlib.Path, form: str, arguments: Arguments) -> None:
    """Writes the settings of decoding, which newer versions read from a file."""
    folders.write_table(folder / GENERATION, _ids(arguments))


def _family(kind: str, name: str, placement: str) -> Family:
    return Family(
        name=kind,
        model=MODEL,
        sizes=sizes,
        mismatch=_mismatch(placement),
        complete=complete,
        write_files=write_files,
        huggingface=Format(
            kinds=(kind,),
            read=_read(placement),
            write=_write(name),
            rows=rows,
            prefix="model.",
            heads=("final_logits_bias",),
            copies=dict.fromkeys(
                (
                    "encoder.embed_tokens.weight",
                    "decoder.embed_tokens.weight",
                    "lm_head.weight",
                ),
                "shared.weight",
            ),
            left_out=("classification_head.*", "qa_outputs.*"),
        ),
    )


BART = _family("bart", "Bart", "post")
MBART = _family("mbart", "MBart", "pre")
