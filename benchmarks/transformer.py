"""Training and generation of a GPT, beside KerasHub and plain PyTorch.

Training: a step (forward, backward, AdamW) of the small GPT of `benchmarks
shakespeare`, through `train_on_batch`: ours, one of KerasHub's layers on the same
backend, and a plain PyTorch GPT. Figures are times by that of plain PyTorch.

Generation: 200 tokens, the best each time, from a prompt of eight; 6 layers, 6 heads,
width 384. Ours and KerasHub's `GPT2CausalLM` keep keys and values; plain PyTorch reads
the whole text again for each token. "memory" reads all matrices once for each token, as
any decoder must, by products with a vector, and does nothing else. Figures are tokens
per second by those of KerasHub.

All take turns as processes of their own: see `benchmarks.turns`.
"""

import importlib.util
import os

from benchmarks.recurrent import positive
from benchmarks.turns import Contender, report, take_turns

PARTS = {
    "training": ("kerasseq", "KerasHub", "plain PyTorch"),
    "generation": ("kerasseq", "KerasHub", "plain PyTorch", "memory"),
}
NEEDS = {"KerasHub": "keras_hub", "plain PyTorch": "torch"}
SIZES = {
    "full": {
        "training": {"layers": 4, "width": 128, "heads": 4, "length": 64, "batch": 12},
        "generation": {"layers": 6, "width": 384, "heads": 6, "length": 256},
        "tokens": 200,
    },
    "tiny": {  # to see that it runs
        "training": {"layers": 1, "width": 6, "heads": 2, "length": 5, "batch": 2},
        "generation": {"layers": 1, "width": 6, "heads": 2, "length": 11},
        "tokens": 2,
    },
}


def add_arguments(parser):
    """What to measure, and how long."""
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{' or '.join(PARTS)} (default: both)"
    )
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--turns", type=positive(int), default=5)
    parser.add_argument(
        "--seconds", type=positive(float), default=2.0, help="length of a turn"
    )
    parser.add_argument("--jit", action="store_true", help="XLA on TensorFlow")


def run(options):
    """Measure, and give a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    wrong = set(options.parts) - PARTS.keys()
    if wrong:
        raise SystemExit(f"no part {wrong.pop()!r}: {' or '.join(PARTS)}")
    table = []
    for part in options.parts or PARTS:
        table += measure(part, backend, options)
    return report(options, backend, table)


def measure(part, backend, options):
    """Rows of the table: all contenders of a part."""
    sizes, contenders = SIZES[options.size], {}
    for who in PARTS[part]:
        if importlib.util.find_spec(NEEDS.get(who, "keras")) is None:
            continue
        task = {
            "part": part,
            "who": who,
            "jit": options.jit,
            "seconds": options.seconds,
            "size": sizes[part],
            "tokens": sizes["tokens"],
        }
        its_own = "torch" if who == "plain PyTorch" else backend
        contenders[who] = Contender("benchmarks.transformer_contender", task, its_own)
    found = take_turns(contenders, options.turns)
    peer = "plain PyTorch" if part == "training" else "KerasHub"
    unit = found.get(peer, found["kerasseq"])[part]
    return [
        {
            "part": part,
            "who": who,
            "peer": peer,
            "time": times[part] / unit,
            "speed": unit / times[part],
            "MB": times["MB"],
        }
        for who, times in found.items()
    ]
