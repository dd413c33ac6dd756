"""`kerasseq generate`: let a trained language model write."""

import sys

from kerasseq.cli.console import note
from kerasseq.cli.loading import find, load
from kerasseq.cli.train import choose_backend


def run(args):
    """Run `kerasseq generate`."""
    _check(args)
    find(args.folder)
    choose_backend(args.backend)
    model, _ = load(args.folder)
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            f"the model in {args.folder} is no language model: it cannot write. "
            "Train one with  kerasseq train language-model"
        )
    prompt = args.prompt
    if prompt is None:
        prompt = "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]
    tell_unknown(tokenizer, prompt, "prompt")
    text = model.generate(
        prompt,
        args.length,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed,
    )
    sys.stdout.write(args.prompt or "")  # as it was typed, unknown characters too
    sys.stdout.write(text[len(prompt) :] + "\n")


def _check(args):
    """What can be wrong before Keras loads, which takes seconds."""
    if args.prompt == "":
        raise ValueError("--prompt is empty: leave it out, or give one character")
    if not args.temperature >= 0:
        raise ValueError(f"--temperature must be 0 or more, got {args.temperature}")
    if args.top_p is not None and not 0 < args.top_p <= 1:
        raise ValueError(f"--top-p must be above 0 and at most 1, got {args.top_p}")


def tell_unknown(tokenizer, text, what):
    """Count on stderr the characters that the model never saw."""
    unknown = tokenizer.unknown_characters(text)
    if unknown:
        total = sum(unknown.values())
        shown = ", ".join(f"{c!r} ×{n}" for c, n in list(unknown.items())[:8])
        more = ", …" if len(unknown) > 8 else ""
        note(
            f"{total} of the {len(text)} characters of the {what} were not in the text "
            f"the model learned from, and count as unknown: {shown}{more}"
        )
