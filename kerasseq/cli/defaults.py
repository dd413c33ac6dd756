"""What a training does if nothing else is typed. Loads no Keras."""

VOCABULARY_SIZE = 1000  # of a tokenizer that learns

DEFAULTS = {
    "language-model": {
        "model": "peephole_lstm",
        "text": None,
        "data": None,
        "encoding": "utf-8",
        "tokenizer": "character",
        "vocabulary_size": VOCABULARY_SIZE,
        "units": 128,
        "layers": None,
        "heads": 4,
        "dropout": 0.0,
        "sequence_length": None,
        "batch_size": None,
        "learning_rate": None,
        "epochs": None,
        "steps": None,
        "checkpoint_every": 100,
        "held_out": 200_000,
        "counted": 2_000_000,
        "seed": 0,
    },
    "parentheses": {
        "model": ["elman", "gated", "lstm", "peephole_lstm", "gru"],
        "plain": False,
        "units": 50,
        "layers": 1,
        "batch_size": 64,
        "learning_rate": 1e-3,
        "steps": 20_000,
        "checkpoint_every": 500,
        "examples": 100_000,
        "test_examples": 2000,
        "seeds": [0],
    },
    "forecast": {
        "model": "lstm",
        "data": "sunspots",
        "units": 32,
        "layers": 1,
        "sequence_length": 24,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "steps": 1000,
        "checkpoint_every": 100,
        "ahead": 12,
        "seed": 0,
    },
    "translation": {
        "model": "gru",
        "pairs": None,
        "data": None,
        "encoding": "utf-8",
        "strict": False,
        "full": False,
        "tokenizer": "character",
        "vocabulary_size": VOCABULARY_SIZE,
        "attention": "bahdanau",
        "units": 128,
        "layers": None,
        "dropout": 0.0,
        "batch_size": 64,
        "learning_rate": None,
        "steps": None,
        "checkpoint_every": 100,
        "seed": 0,
    },
}
# Of a translation: training steps, and pairs that are generated, without --full and
# with it.
TRANSLATION = {False: (500, 20_000), True: (2000, 60_000)}
# What is None above and depends on the model: which one differs, of all others, of it.
OF_MODEL = {
    "language-model": (
        "gpt",
        {"layers": 1, "sequence_length": 96, "batch_size": 64, "learning_rate": 3e-3},
        {"layers": 4, "sequence_length": 64, "batch_size": 12, "learning_rate": 1e-3},
    ),
    "translation": (
        "transformer",
        {"layers": 1, "learning_rate": 4e-3},
        {"layers": 2, "learning_rate": 2e-3},
    ),
}
EPOCHS = 10  # of a language model, if neither --epochs nor --steps is given
