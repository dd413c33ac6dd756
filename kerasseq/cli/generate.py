"""`kerasseq generate`: let a trained language model write."""

import sys

from kerasseq.cli.loading import find, load
from kerasseq.cli.tokenizing import tell_unknown
from kerasseq.cli.train import choose_backend
from kerasseq.cli.waiting import waiting


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
        prompt = _default_prompt(tokenizer)
    tell_unknown(tokenizer, prompt, "prompt")
    with waiting(f"generating {args.length:,} tokens"):
        text = model.generate(
            prompt,
            args.length,
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            seed=args.seed,
        )
    sys.stdout.write(args.prompt or "")  # as it was typed, unknown characters too
    begun = tokenizer.decode(tokenizer.encode(prompt))  # as the model has read it
    sys.stdout.write(text[len(begun) :] + "\n")


def _default_prompt(tokenizer):
    """The start of a line; or, if that is no token, the first token there is."""
    if len(tokenizer.encode("\n")) and not tokenizer.unknown_characters("\n"):
        return "\n"
    strange = (*tokenizer.special_tokens, tokenizer.unknown)
    texts = (tokenizer.decode([i]) for i in range(tokenizer.vocabulary_size))
    return next(text for text in texts if text.strip() and text not in strange)


def _check(args):
    """What can be wrong before Keras loads, which takes seconds."""
    if args.prompt == "":
        raise ValueError("--prompt is empty: leave it out, or give one character")
