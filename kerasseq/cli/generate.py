"""`kerasseq generate`: a continuation of a prompt by a trained language model."""

import argparse

from kerasseq.cli import options, runs
from kerasseq.cli.console import choose_backend, print_result, status
from kerasseq.cli.tokenize import note_unknown
from kerasseq.text.tokenizers.tokenizer import Tokenizer


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "generate",
        """\
Generate a continuation of a prompt, token by token, each drawn from the distribution
that the model predicts. A lower temperature is more deterministic, a higher one more
random.""",
        """\
examples:
  kerasseq generate runs/quickstart
  kerasseq generate runs/quickstart --prompt "The class " --length 500
  kerasseq generate runs/quickstart --temperature 0.5 --top-k 10 --seed 1""",
    )
    options.add_run(parser)
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help="the text to continue (default: the start of a line)",
    )
    parser.add_argument(
        *("--length", "--max-new-tokens"),
        type=options.length,
        default=300,
        metavar="N",
        help="number of tokens to generate (default: 300)",
    )
    parser.add_argument(
        "--temperature",
        type=options.temperature,
        default=1.0,
        metavar="X",
        help="lower is more deterministic, higher more random; 0 is greedy search "
        "(default: 1)",
    )
    parser.add_argument(
        "--top-k",
        type=options.integer(),
        metavar="K",
        help="sample from the K most probable tokens",
    )
    parser.add_argument(
        "--top-p",
        type=options.probability,
        metavar="P",
        help="sample from the most probable tokens whose probabilities sum to P",
    )
    parser.add_argument(
        "--min-p",
        type=options.probability,
        metavar="P",
        help="sample from tokens with at least P times the highest probability",
    )
    options.add_seed(parser, None)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq generate`."""
    if args.prompt == "":
        raise ValueError(
            "--prompt must have at least one character, received an empty text. Leave "
            "it out, or give a longer one"
        )
    runs.find_model(args.folder)
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None or not hasattr(model, "generate"):
        raise ValueError(
            f"expected a language model, received {type(model).__name__} in "
            f"{args.folder}, which does not generate text. Train one with  "
            "kerasseq train language-model"
        )
    prompt = default_prompt(tokenizer) if args.prompt is None else args.prompt
    note_unknown(tokenizer, prompt, "prompt")
    with status(f"generating {args.length:,} tokens"):
        text = model.generate(
            prompt,
            max_new_tokens=args.length,
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            min_p=args.min_p,
            seed=args.seed,
        )
    decoded = tokenizer.decode(tokenizer.encode(prompt))  # as the model reads it
    # The prompt as typed, with its unknown characters.
    print_result((args.prompt or "") + text[len(decoded) :])


def default_prompt(tokenizer: Tokenizer) -> str:
    """Returns a newline; or the first token, if the vocabulary has no newline."""
    if len(tokenizer.encode("\n")) and not tokenizer.unknown_characters("\n"):
        return "\n"
    special = (*tokenizer.special_tokens, tokenizer.unknown)
    texts = (tokenizer.decode([i]) for i in range(tokenizer.vocabulary_size))
    return next(text for text in texts if text.strip() and text not in special)
