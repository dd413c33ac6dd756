"""`kerasseq generate`: a continuation of a prompt by a trained language model.

Generate a continuation of a prompt, token by token, each drawn from the distribution
that the model predicts. A lower temperature is more deterministic, a higher one more
random.

Examples:
  kerasseq generate runs/quickstart
  kerasseq generate runs/quickstart --prompt "The class " --length 500
  kerasseq generate runs/quickstart --temperature 0.5 --top-k 10 --seed 1
"""

import argparse
from typing import Any

from kerasseq.cli import options, runs, text_models
from kerasseq.cli.console import choose_backend, print_json, print_result, status
from kerasseq.cli.tokenize import note_unknown
from kerasseq.text.tokenizers.tokenizer import Tokenizer

SAMPLING = ("temperature", "top_k", "top_p", "min_p")  # what `add_sampler` adds


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("generate")
    options.add_run(parser)
    text_models.add_adapter(parser)
    text = "the text to continue"
    options.add(parser, "--prompt", str, text, "TEXT", shown="the start of a line")
    add_sampling(parser, length=300)
    options.add_seed(parser, None)
    options.add_backend(parser)
    options.add_json(parser)


def add_sampling(
    parser: options.Options, length: int, temperature: float | None = 1.0
) -> None:
    """Adds the options of a continuation, with a default of its length.

    Args:
        parser: The parser of the command.
        length: The default of the length.
        temperature: That of the temperature. If None, it is 1 with one of the other
            options, else 0.
    """
    names, text = "--length --max-new-tokens", "number of tokens to generate"
    options.add(parser, names, options.length, text, default=length)
    add_sampler(parser, temperature)


def add_sampler(parser: options.Options, temperature: float | None = None) -> None:
    """Adds the options of how tokens are drawn, with the default of the temperature."""
    text = "lower is more deterministic, higher more random; 0 is greedy search"
    shown = "0; 1 with --top-k, --top-p or --min-p" if temperature is None else None
    more = {"default": temperature, "shown": shown}
    options.add(parser, "--temperature", options.temperature, text, "X", **more)
    text = "sample from the K most probable tokens"
    options.add(parser, "--top-k", options.integer(), text, "K")
    text = "sample from the most probable tokens whose probabilities sum to P"
    options.add(parser, "--top-p", options.probability, text, "P")
    text = "sample from tokens with at least P times the highest probability"
    options.add(parser, "--min-p", options.probability, text, "P")


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq generate`."""
    if args.prompt == "":
        raise ValueError(
            "--prompt must have at least one character, received an empty text. Leave "
            "it out, or give a longer one"
        )
    runs.find_model(args.folder)
    choose_backend(args.backend)
    model = load_language_model(args.folder, args.adapter)
    prompt = args.prompt or default_prompt(model.tokenizer)
    note_unknown(model.tokenizer, prompt, "prompt")
    with status(f"generating {args.length:,} tokens"):
        text = continuation(model, prompt, args, args.seed)
    # The prompt as typed, with its unknown characters.
    text = (args.prompt or "") + text
    if args.json:
        print_json({"prompt": prompt, "text": text})
    else:
        print_result(text)


def load_language_model(folder: str, adapter: str | None = None) -> Any:
    """Loads the language model of a run.

    Args:
        folder: The folder of a run, or a `.keras` file.
        adapter: The file of an adapter, or None.

    Raises:
        ValueError: If its model does not continue texts.
    """
    model, _ = text_models.load_model(folder, adapter)
    tokenizer = getattr(model, "tokenizer", None)
    is_translator = hasattr(model, "translate")  # as T5, which answers a source
    if tokenizer is None or is_translator or not hasattr(model, "generate"):
        raise ValueError(
            f"expected a language model, received {type(model).__name__} in "
            f"{folder}, which does not generate text. Train one with  "
            "kerasseq train language-model"
        )
    return model


def load_chat_model(folder: str, adapter: str | None = None, advice: str = "") -> Any:
    """Loads a language model whose tokenizer has a chat template.

    Args:
        folder: The folder of a run, or a `.keras` file.
        adapter: The file of an adapter, or None.
        advice: What the message about a model without a template ends with.

    Raises:
        ValueError: If it has none. The message says how to get one.
    """
    model = load_language_model(folder, adapter)
    if getattr(model.tokenizer, "chat_template", None) is None:
        raise ValueError(
            f"{folder} has no chat template, by which a model tells messages from "
            "answers. Train it with  kerasseq train language-model --chat,  or set "
            "tokenizer.chat_template = kerasseq.text.ChatTemplate() and train on "
            f"conversations with model.fit{advice}"
        )
    return model


def continuation(
    model: Any, prompt: str, args: argparse.Namespace, seed: int | None
) -> str:
    """Generates a continuation, without its prompt.

    Args:
        model: A language model.
        prompt: The text to continue.
        args: The options of `add_sampling`.
        seed: Seed of the draws.
    """
    text = model.generate(
        prompt,
        max_new_tokens=args.length,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        seed=seed,
    )
    # The model reads unknown characters as others.
    return text[len(model.tokenizer.decode(model.tokenizer.encode(prompt))) :]


def default_prompt(tokenizer: Tokenizer) -> str:
    """Returns a newline; or the first token, if the vocabulary has no newline."""
    if len(tokenizer.encode("\n")) and not tokenizer.unknown_characters("\n"):
        return "\n"
    special = (*tokenizer.special_tokens, tokenizer.unknown)
    texts = (tokenizer.decode([i]) for i in range(tokenizer.vocabulary_size))
    return next(text for text in texts if text.strip() and text not in special)
