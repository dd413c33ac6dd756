"""`kerasseq train translation` and `kerasseq translate`, as typed. Loads no Keras."""

from kerasseq.cli import names, options
from kerasseq.cli.defaults import TRANSLATION


def train(add, tasks):
    """Add the task by `add` of the parser, and its options."""
    parser = add(
        "train",
        "train",
        "learn to translate from pairs of texts",
        """\
Train a translation model with attention on pairs: numbers by name, dates, or a file of
yours with a source, a tab and a target on each line. Some pairs are held out: the share
of them that comes out right to the last character is printed, with BLEU and chrF.""",
        """\
examples:
  kerasseq train translation --data numbers-de
  kerasseq train translation --data numbers-de --full
  kerasseq train translation --model transformer --full
  kerasseq train translation --pairs deu.txt --tokenizer word --steps 5000
then:
  kerasseq translate "twenty-one" """,
        tasks,
        "translation",
    )
    options.resume(parser)
    task = "translation"
    source = parser.add_argument_group("what to learn from")
    source.add_argument("--pairs", metavar="FILE", help="a file of pairs of yours")
    source.add_argument(
        "--data",
        type=names.one_of("data set", names.PAIRS),
        metavar="NAME",
        help=f"{', '.join(names.PAIRS)} (default: {names.PAIRS[0]})",
    )
    source.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of the file, such as cp1252 (default: utf-8)",
    )
    _switch(source, "--strict", "stop if a line of the file is no pair")
    group = parser.add_argument_group("how it is read")
    options.add(group, task, "--tokenizer", str, options.tokenizer_help(), "NAME")
    options.add(
        group, task, "--vocabulary-size", names.whole(), "ids of each tokenizer"
    )
    kind = names.translator
    group = options.model(parser, task, kind, choices=names.TRANSLATORS)
    options.add(
        group,
        task,
        "--attention",
        names.one_of("attention", names.ATTENTIONS),
        f"of a recurrent model: {', '.join(names.ATTENTIONS)}",
        "NAME",
    )
    group = options.training(parser, task)
    (short, few), (long, many) = TRANSLATION[False], TRANSLATION[True]
    _switch(
        group,
        "--full",
        f"train to the end: {long:,} steps and {many:,} generated pairs instead of "
        f"{short:,} and {few:,}",
    )
    options.steps(group, "N", "training steps")
    options.add(group, task, "--seed", names.seed, "seed of all that is random")
    options.where(parser, "runs/translation-MODEL-N")


def translate(add):
    """Add the command by `add` of the parser, and its options."""
    parser = add(
        "translate",
        "translate",
        "translate with a trained model",
        """\
Translate texts, a line each, with the model of the newest translation run, or of
another. Characters that it has never seen are marked and translated as unknown.""",
        """\
examples:
  kerasseq translate "twenty-one"
  kerasseq translate "twenty-one" "one hundred" --beam 4 --candidates 3
  kerasseq translate --file lines.txt --run runs/translation-gru-1
  kerasseq translate "twenty-one" --align alignment.png""",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text")
    source.add_argument(
        "--file", metavar="FILE", help="a file with a text on each line"
    )
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file"
    )
    parser.add_argument(
        "--run",
        metavar="RUN",
        help="folder of a run (default: the newest below runs/ that translates)",
    )
    parser.add_argument(
        "--beam",
        type=names.whole(at_most=1000),
        metavar="N",
        help="search with a beam of this width (default: the best token each time)",
    )
    parser.add_argument(
        "--candidates",
        type=names.whole(),
        default=1,
        metavar="N",
        help="with --beam: show the N best, with their log-probabilities (default: 1)",
    )
    parser.add_argument(
        "--length",
        type=names.length,
        metavar="N",
        help="the most tokens of a translation (default: by the length of the text)",
    )
    parser.add_argument("--align", metavar="FILE", help="draw the alignments as PNG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.backend(parser)


def _switch(group, option, text):
    """An option without value; None if it was not typed."""
    group.add_argument(option, action="store_true", default=None, help=text)
