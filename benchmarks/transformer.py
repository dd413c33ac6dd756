"""Training and generation of a GPT, beside KerasHub and plain PyTorch.

Training: a step (forward, backward, AdamW) of the small GPT of `benchmarks
shakespeare` by `train_on_batch`, for kerasseq, for a model of KerasHub's layers on the
same backend, and for a GPT in plain PyTorch. `time` and `speed` are ratios to plain
PyTorch.

Generation: 200 tokens by greedy search after a prompt of eight tokens; 6 layers,
6 heads, hidden size 384. kerasseq and KerasHub's `GPT2CausalLM` cache keys and values,
plain PyTorch computes the whole sequence again for each token. "memory" is a lower
bound: for each token it multiplies each weight matrix by a vector once, as every
decoder must. `time` and `speed` are ratios to KerasHub.

Steps: 100 tokens by greedy search with GPTs of 2 layers of 64, 4 of 128 and 6 of 384
numbers, compiled or recorded, and with the Python of all layers at each token. `time`
and `speed` are ratios to the latter.

Each implementation runs in its own process, in rounds (see `benchmarks.rounds`).
"""

import functools
import importlib.util
import os

import numpy as np

from benchmarks.options import add_timing_arguments
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import torch_device

PARTS = {
    "training": ("kerasseq", "KerasHub", "plain PyTorch"),
    "generation": ("kerasseq", "KerasHub", "plain PyTorch", "memory"),
    **{f"steps-{width}": ("kerasseq", "Python") for width in (64, 128, 384)},
}
PEERS = {"training": "plain PyTorch", "generation": "KerasHub"}  # else "Python"
PACKAGES = {"KerasHub": "keras_hub", "plain PyTorch": "torch"}
SIZES = {
    "full": {
        "training": {"layers": 4, "width": 128, "heads": 4, "length": 64, "batch": 12},
        "generation": {"layers": 6, "width": 384, "heads": 6, "length": 256},
        "steps-64": {"layers": 2, "width": 64, "heads": 2, "length": 256},
        "steps-128": {"layers": 4, "width": 128, "heads": 4, "length": 256},
        "steps-384": {"layers": 6, "width": 384, "heads": 6, "length": 256},
        "tokens": {"generation": 200, "steps": 100},
    },
    "tiny": {  # for the tests
        "training": {"layers": 1, "width": 6, "heads": 2, "length": 5, "batch": 2},
        "generation": {"layers": 1, "width": 6, "heads": 2, "length": 11},
        **{
            f"steps-{width}": {"layers": 1, "width": 6, "heads": 2, "length": 11}
            for width in (64, 128, 384)
        },
        "tokens": {"generation": 2, "steps": 2},
    },
}
VOCABULARY_SIZE, PROMPT_LENGTH, LEARNING_RATE = 65, 8, 1e-3


def vocabulary_of(size):
    """Returns the number of tokens of a model."""
    return size.get("vocabulary", VOCABULARY_SIZE)


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{' or '.join(PARTS)} (default: all)"
    )
    parser.add_argument("--size", choices=SIZES, default="full")
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        expected = " or ".join(PARTS)
        raise SystemExit(f"PART must be {expected}, received {unknown.pop()!r}")
    table = []
    for part in options.parts or PARTS:
        table += measure(part, backend, options)
    return report(options, backend, table)


def measure(part, backend, options):
    """Returns the rows of one part, one for each implementation."""
    sizes, workers = SIZES[options.size], {}
    for name in PARTS[part]:
        if importlib.util.find_spec(PACKAGES.get(name, "keras")) is None:
            continue
        task = {
            "part": part,
            "implementation": name,
            "jit": options.jit,
            "seconds": options.seconds,
            "cpu_time": options.cpu_time,
            "size": sizes[part],
            "tokens": sizes["tokens"].get(part.partition("-")[0]),
        }
        worker_backend = "torch" if name == "plain PyTorch" else backend
        workers[name] = Worker("benchmarks.transformer", task, worker_backend)
    medians = time_in_rounds(workers, options.rounds)
    peer = PEERS.get(part, "Python")
    unit = medians.get(peer, medians["kerasseq"])[part]
    return [
        {
            "part": part,
            "implementation": name,
            "peer": peer,
            "time": times[part] / unit,
            "speed": unit / times[part],
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the function that a worker times."""
    name = task["implementation"]
    if name == "memory":
        return {"generation": matrix_vector_products(task["size"], task["tokens"])}
    build = {"kerasseq": kerasseq_gpt, "KerasHub": hub_gpt, "plain PyTorch": torch_gpt}
    build["Python"] = functools.partial(kerasseq_gpt, compiled=False)
    return {task["part"]: build[name](task)}


def random_batch(size):
    """Returns a batch of random ids and the ids that follow them."""
    rng = np.random.default_rng(0)
    ids = rng.integers(vocabulary_of(size), size=(size["batch"], size["length"] + 1))
    return ids[:, :-1].astype("int32"), ids[:, 1:].astype("int32")


def random_prompt(size):
    """Returns the ids of a prompt."""
    length = min(PROMPT_LENGTH, size["length"] // 2)
    return np.random.default_rng(0).integers(1, VOCABULARY_SIZE, size=length).tolist()


def keras_training_step(model, task):
    """Compiles a Keras model and returns its training step."""
    import keras

    adam = keras.optimizers.AdamW(LEARNING_RATE, 0.1, beta_2=0.99, global_clipnorm=1.0)
    model.compile(
        adam,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile="auto" if keras.backend.backend() == "jax" else task["jit"],
    )
    x, y = random_batch(task["size"])
    return lambda: model.train_on_batch(x, y)


def kerasseq_gpt(task, compiled=True):
    """Returns the training step or generation of `kerasseq.models.GPT`."""
    from kerasseq.models import GPT

    class NotPure(GPT):
        """Does not say that it is pure: its Python runs at each token."""

    size = task["size"]
    model = (GPT if compiled else NotPure)(
        vocabulary_size=vocabulary_of(size),
        num_layers=size["layers"],
        num_heads=size["heads"],
        hidden_dim=size["width"],
        max_sequence_length=size["length"],
    )
    if task["part"] == "training":
        return keras_training_step(model, task)
    prompt = random_prompt(size)
    return lambda: model.generate(prompt, task["tokens"], temperature=0)


def hub_gpt(task):
    """Returns the training step or generation of KerasHub."""
    if task["part"] == "training":
        return hub_training_step(task)
    return hub_generation(task)


def hub_training_step(task):
    """Returns the training step of a GPT made of KerasHub's layers."""
    import keras
    import keras_hub

    size = task["size"]
    ids = keras.Input((None,), dtype="int32")
    embedding = keras_hub.layers.TokenAndPositionEmbedding(
        vocabulary_of(size), size["length"], size["width"]
    )
    x = embedding(ids)
    for _ in range(size["layers"]):
        x = keras_hub.layers.TransformerDecoder(
            4 * size["width"], size["heads"], activation="gelu", normalize_first=True
        )(x)
    x = keras.layers.LayerNormalization(epsilon=1e-5)(x)
    logits = embedding.token_embedding(x, reverse=True)
    return keras_training_step(keras.Model(ids, logits), task)


def hub_generation(task):
    """Returns the generation of `keras_hub.models.GPT2CausalLM` on token ids."""
    import keras_hub

    size, prompt = task["size"], random_prompt(task["size"])
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_of(size),
        size["layers"],
        size["heads"],
        size["width"],
        4 * size["width"],
        dropout=0.0,
        max_sequence_length=size["length"],
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile(sampler="greedy")
    length = len(prompt) + task["tokens"]
    ids, mask = np.zeros((2, 1, length), "int32")
    ids[0, : len(prompt)], mask[0, : len(prompt)] = prompt, 1
    inputs = {"token_ids": ids, "padding_mask": mask.astype("bool")}
    return lambda: model.generate(inputs, stop_token_ids=None)


def torch_gpt(task):
    """Returns the training step or generation of a GPT in plain PyTorch."""
    import torch

    from benchmarks.plain_gpt import PlainGPT, optimizer

    size, device = task["size"], torch_device()
    sizes = size["length"], size["layers"], size["heads"], size["width"]
    model = PlainGPT(vocabulary_of(size), *sizes).to(device)
    if task["part"] == "generation":
        prompt = torch.tensor([random_prompt(size)], device=device)
        return lambda: model.eval().generate(prompt, task["tokens"])
    loss_of = torch.compile(model.loss) if task.get("compiled") else model.loss
    return torch_training_step(optimizer(model, LEARNING_RATE), loss_of, task)


def torch_training_step(adam, loss_of, task):
    """Returns a training step in PyTorch."""
    import torch

    device, half = torch_device(), task.get("dtype") == "mixed_bfloat16"
    batch = random_batch(task["size"])
    weights = [weight for group in adam.param_groups for weight in group["params"]]

    def step():
        x, y = (torch.from_numpy(ids).to(device) for ids in batch)
        adam.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = loss_of(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        adam.step()
        return loss.item()

    return step


def hugging_face_gpt(task):
    """Returns the training step or generation of `transformers.GPT2LMHeadModel`."""
    import torch
    import transformers

    size, device = task["size"], torch_device()
    config = transformers.GPT2Config(
        vocab_size=vocabulary_of(size),
        n_positions=size["length"],
        n_embd=size["width"],
        n_layer=size["layers"],
        n_head=size["heads"],
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        bos_token_id=None,
        eos_token_id=None,  # it would end a text
    )
    model = transformers.GPT2LMHeadModel(config).to(device)
    if task["part"] == "generation":
        prompt = torch.tensor([random_prompt(size)], device=device)
        options = {"attention_mask": torch.ones_like(prompt), "do_sample": False}
        options |= {"max_new_tokens": task["tokens"], "pad_token_id": 0}
        return lambda: model.eval().generate(prompt, **options)

    def loss_of(ids, targets):
        logits = model(ids).logits
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten().long()
        )

    adam = torch.optim.AdamW(model.parameters(), LEARNING_RATE, fused=device == "cuda")
    return torch_training_step(adam, loss_of, task)


def matrix_vector_products(size, tokens):
    """Returns a function that multiplies all weight matrices by a vector per token."""
    width = size["width"]
    matrices = [
        np.ones((4 * width, width), "float32") for _ in range(3 * size["layers"])
    ]
    vector = np.ones(width, "float32")

    def products():
        for _ in range(tokens):
            for matrix in matrices:
                matrix @ vector

    return products
