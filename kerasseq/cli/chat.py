"""`kerasseq chat`: a conversation with a language model in the terminal.

Talk with a language model whose tokenizer has a chat template, as one that was trained
on conversations. Its answers are printed token by token; Ctrl-C stops one, and ends the
conversation where a message is expected, as the end of the input does. --explain prints
the text that the model continues, and beside each token its probability and the next
three. Lines that begin with / are commands: /new, /explain, /help and /quit. If the
input is a pipe, each line gets an answer.

Examples:
  kerasseq chat runs/chat
  kerasseq chat runs/chat --explain
  kerasseq chat runs/chat --prompt "Where does Ben live?" --json
  kerasseq chat runs/chat --temperature 0.7 --top-p 0.9 --seed 1
"""

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.cli import generate, options, runs, text_models
from kerasseq.cli.console import (
    Console,
    choose_backend,
    note,
    on_terminal,
    print_json,
    progress,
    read_lines,
    status,
)
from kerasseq.cli.errors import UsageError, one_line, truncate_word
from kerasseq.cli.tokenize import note_unknown
from kerasseq.core.messages import Message

COMMANDS = {
    "/new": "start a new conversation",
    "/explain": "print the probabilities of tokens, or no longer",
    "/help": "print these commands",
    "/quit": "end the conversation",
}
OTHERS = 3  # tokens beside the one that was chosen
MAX_ANSWER = 64  # tokens


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("chat")
    options.add_run(parser)
    text_models.add_adapter(parser)
    text = "one message, to be answered instead of a dialogue"
    options.add(parser, "--prompt", str, text, "TEXT")
    text = "instructions, with which each conversation begins"
    options.add(parser, "--system", str, text, "TEXT")
    text = "print what the model reads, and the probability of each token"
    options.add(parser, "--explain", None, text)
    generate.add_sampling(parser, length=128, temperature=None)
    options.add_seed(parser, None)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq chat`."""
    for name in ("prompt", "system"):
        if getattr(args, name) == "":
            raise UsageError(
                f"--{name} must have at least one character, received an empty text. "
                "Leave it out, or give a longer one"
            )
    runs.find_model(args.folder)
    choose_backend(args.backend)
    dialogue = Dialogue(args)
    if args.prompt is None:
        dialogue.run()
    else:
        dialogue.answer(args.prompt)
    if args.json:
        print_json({"system": args.system, "turns": dialogue.turns})


class Dialogue:
    """A conversation in the terminal.

    Args:
        args: The options of the command.

    Attributes:
        turns: Plain data of each answer, for JSON.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.console: Console = Console(stderr=args.json)
        self.explains: bool = bool(args.explain)
        self.turns: list[dict[str, Any]] = []
        self.has_noted_length = False
        self.chat: Any = _load(args)

    def run(self) -> None:
        """Answers the lines that are typed or piped, until the end of the input."""
        is_typed = on_terminal()
        if is_typed:
            self.console.info(f"{self.args.folder} answers. {_commands()}")
        try:
            for line in read_lines(stderr=self.args.json):
                if line.strip() == "/quit":
                    return
                self._reply(line)
        except KeyboardInterrupt:
            if not is_typed:
                raise
        if is_typed:
            self.console.write()  # the cursor is behind the prompt

    def _reply(self, line):
        """Obeys a command, or answers a message; Ctrl-C stops an answer."""
        words = line.split()
        if not words:
            note("expected a message, received an empty line")
        elif words[0].startswith("/"):
            self._obey(words[0])
        else:
            try:
                self.answer(line)
            except KeyboardInterrupt:
                if not on_terminal():
                    raise
                self.console.write("\n(stopped)")
            except MessageError as error:
                note(one_line(error))

    def _obey(self, command):
        if command == "/new":
            messages = self.chat.messages
            self.chat.messages = [m for m in messages if m["role"] == "system"]
            self.has_noted_length = False
            note("a new conversation")
        elif command == "/explain":
            self.explains = not self.explains
            state = "printed" if self.explains else "no longer printed"
            note(f"probabilities are {state}")
        elif command == "/help":
            for name, text in COMMANDS.items():
                self.console.write(f"{name:<10}{text}")
        else:
            note(f"unknown command {truncate_word(command, 40)}. {_commands()}")

    def answer(self, text: str) -> None:
        """Prints the answer to a message, token by token.

        Args:
            text: The message.

        Raises:
            MessageError: If it is not a message for this model.
        """
        note_unknown(self.chat.model.tokenizer, text, "message")
        with status("reading the message"):
            try:
                fed, pieces = self.chat.prompt(text), self.chat.stream(text)
            except ValueError as error:
                raise MessageError(str(error)) from error
        self._note_length(text)
        turn: dict[str, Any] = {"message": text, "prompt": fed}
        turn |= {"answer": "", "tokens": []}
        self.turns.append(turn)
        if self.explains:
            self.console.write(f"    reads {fed!r}")
        with contextlib.closing(pieces):
            with status("answering"):  # the first token takes long
                piece = next(pieces, None)
            while piece is not None:
                turn["answer"] += piece.text
                turn["tokens"].append(_plain(piece))
                if self.explains:
                    self.console.write(_explained(piece))
                else:
                    self.console.write_part(piece.text)
                piece = next(pieces, None)
        self.console.write_part(f"{turn['answer']}\n" if self.explains else "\n")
        if not turn["answer"]:
            note("the answer is empty: the model ended it at once")

    def _note_length(self, text):
        """Says once that the model no longer reads the oldest messages."""
        messages = self.chat.messages
        if self.has_noted_length or len(self.chat.read(text)) > len(messages):
            return
        self.has_noted_length = True
        note(
            f"from now on the oldest messages are left out, as the model reads at most "
            f"{self.chat.model.max_sequence_length} tokens with its answer"
        )


class MessageError(ValueError):
    """A message that a model cannot answer; the dialogue goes on."""


def _load(args):
    """Loads the model, and returns its `Chat`."""
    from kerasseq.models import Chat

    advice = "; or use  kerasseq generate"
    model = generate.load_chat_model(args.folder, args.adapter, advice)
    if args.system is not None:
        note_unknown(model.tokenizer, args.system, "instructions")
    sampling = {
        name: getattr(args, name) for name in ("temperature", "top_k", "top_p", "min_p")
    }
    return Chat(
        model,
        args.system,
        max_new_tokens=args.length,
        num_best=OTHERS + 1,
        seed=args.seed,
        **sampling,
    )


def _commands():
    return f"Commands: {', '.join(COMMANDS)}"


def _plain(piece):
    best = [{"token": token, "probability": p} for token, p in piece.best]
    return {"token": piece.token, "probability": piece.probability, "best": best}


def _explained(piece):
    r"""Returns a line about a token: its probability, itself, and the next ones."""
    others = [(token, p) for token, p in piece.best if token != piece.token]
    shown = ", ".join(f"{token!r} {p:.3f}" for token, p in others[:OTHERS])
    return f"    {piece.probability:.3f}  {piece.token!r:<16}  {shown}".rstrip()


# Questions with right answers


def last_question(talk: list[Message]) -> list[Message] | None:
    """Returns a conversation up to its last answer; None if no question is before it.

    Examples:
        >>> talk = [{"role": "user", "content": "Hi"}]
        >>> last_question(talk) is None
        True
        >>> answer = {"role": "assistant", "content": "Yes"}
        >>> len(last_question([*talk, answer, *talk]))
        2
    """
    while talk and talk[-1]["role"] != "assistant":
        talk = talk[:-1]
    return talk if len(talk) > 1 and talk[-2]["role"] == "user" else None


def answers(model: Any, questions: Sequence[list[Message]]) -> list[str]:
    """Returns the most probable answers to questions.

    Args:
        model: A language model whose tokenizer has a chat template.
        questions: Conversations that end with a question and its right answer.
    """
    from kerasseq.models import Chat

    replies = []
    with progress("asking", len(questions)) as show:
        for talk in questions:
            chat = Chat(model, max_new_tokens=MAX_ANSWER)
            chat.messages = list(talk[:-2])
            replies.append(chat.ask(talk[-2]["content"]))
            show(len(replies))
    return replies


def is_right(answer: str, expected: str) -> bool:
    """Returns whether an answer is the expected one, or ends with it.

    Examples:
        >>> [is_right(x, "7") for x in ("7", "The answer is 7.", "17", "7 or 8")]
        [True, True, False, False]
    """
    words, wanted = (x.casefold().strip(" .!").split() for x in (answer, expected))
    return bool(wanted) and words[-len(wanted) :] == wanted


def share_right(
    model: Any, questions: Sequence[list[Message]]
) -> tuple[float, list[str]]:
    """Returns the share of right answers, and all answers.

    Args:
        model: As for `answers`.
        questions: As for `answers`, at least one.
    """
    given = answers(model, questions)
    right = [
        is_right(a, q[-1]["content"]) for a, q in zip(given, questions, strict=True)
    ]
    return sum(right) / len(right), given


def bits_of_answers(
    model: Any, talks: Sequence[list[Message]], batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the bits that the answers of conversations need, and their tokens.

    Args:
        model: A language model.
        talks: The conversations.
        batch_size: How many are predicted at a time.

    Returns:
        Bits `(talks,)` and numbers of tokens `(talks,)`.
    """
    from keras import ops

    from kerasseq.training.policy import log_probability

    batches = model.answer_batches(talks, batch_size=batch_size)
    bits, tokens = np.zeros(len(talks)), np.zeros(len(talks))
    for group in batches.groups:  # of one shape each
        for n in range(0, len(group), batch_size):
            rows = group[n : n + batch_size]
            x, targets, counted = batches.take(rows)
            log_p = log_probability(model.predict_on_batch(x), targets, counted > 0)
            bits[rows] = -ops.convert_to_numpy(log_p) / np.log(2)
            tokens[rows] = counted.sum(axis=1)
    return bits, tokens


def bits_per_byte(model: Any, text: str) -> float:
    """Computes the bits of the tokens of a text but the first, per byte of theirs."""
    encoding = model.tokenizer.encode_with_offsets(text)
    start = int(encoding.offsets[0, 1])
    bits = model.surprise(encoding.ids).bits[1:].sum()
    return float(bits / len(text[start:].encode()))
