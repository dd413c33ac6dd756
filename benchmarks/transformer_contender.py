"""The contenders of `benchmarks transformer`."""

import numpy as np

VOCABULARY, PROMPT, RATE = 65, 8, 1e-3


def functions(task):
    """What one of them times."""
    if task["who"] == "memory":
        return {"generation": memory(task["size"], task["tokens"])}
    made = {"kerasseq": ours, "KerasHub": hub, "plain PyTorch": plain}[task["who"]]
    return {task["part"]: made(task)}


def texts(size):
    """A batch of ids and of those that follow."""
    rng = np.random.default_rng(0)
    ids = rng.integers(VOCABULARY, size=(size["batch"], size["length"] + 1))
    return ids[:, :-1].astype("int32"), ids[:, 1:].astype("int32")


def prompt(size):
    """The beginning of a text."""
    length = min(PROMPT, size["length"] // 2)
    return np.random.default_rng(0).integers(1, VOCABULARY, size=length).tolist()


def keras_step(model, task):
    """A training step as `fit` takes it."""
    import keras

    adam = keras.optimizers.AdamW(RATE, 0.1, beta_2=0.99, global_clipnorm=1.0)
    model.compile(
        adam,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile="auto" if keras.backend.backend() == "jax" else task["jit"],
    )
    x, y = texts(task["size"])
    return lambda: model.train_on_batch(x, y)


def ours(task):
    """`models.GPT`."""
    from kerasseq.models import GPT

    size = task["size"]
    model = GPT(
        vocabulary_size=VOCABULARY,
        num_layers=size["layers"],
        num_heads=size["heads"],
        hidden_dim=size["width"],
        max_sequence_length=size["length"],
    )
    if task["part"] == "training":
        return keras_step(model, task)
    begun = prompt(size)
    return lambda: model.generate(begun, task["tokens"], temperature=0)


def hub(task):
    """KerasHub's layers in a model of ours, and its own GPT-2."""
    return hub_step(task) if task["part"] == "training" else hub_generation(task)


def hub_step(task):
    """The same stack of KerasHub's layers."""
    import keras
    import keras_hub

    size = task["size"]
    ids = keras.Input((None,), dtype="int32")
    embedding = keras_hub.layers.TokenAndPositionEmbedding(
        VOCABULARY, size["length"], size["width"]
    )
    x = embedding(ids)
    for _ in range(size["layers"]):
        x = keras_hub.layers.TransformerDecoder(
            4 * size["width"], size["heads"], activation="gelu", normalize_first=True
        )(x)
    x = keras.layers.LayerNormalization(epsilon=1e-5)(x)
    logits = embedding.token_embedding(x, reverse=True)
    return keras_step(keras.Model(ids, logits), task)


def hub_generation(task):
    """`keras_hub.models.GPT2CausalLM`, without a tokenizer."""
    import keras_hub

    size, begun = task["size"], prompt(task["size"])
    backbone = keras_hub.models.GPT2Backbone(
        VOCABULARY,
        size["layers"],
        size["heads"],
        size["width"],
        4 * size["width"],
        dropout=0.0,
        max_sequence_length=size["length"],
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile(sampler="greedy")
    filled = len(begun) + task["tokens"]
    ids, real = np.zeros((2, 1, filled), "int32")
    ids[0, : len(begun)], real[0, : len(begun)] = begun, 1
    inputs = {"token_ids": ids, "padding_mask": real.astype("bool")}
    return lambda: model.generate(inputs, stop_token_ids=None)


def plain(task):
    """A GPT in plain PyTorch."""
    import torch

    from benchmarks.plain_gpt import PlainGPT, optimizer

    size = task["size"]
    model = PlainGPT(
        VOCABULARY, size["length"], size["layers"], size["heads"], size["width"]
    )
    if task["part"] == "generation":
        begun = torch.tensor([prompt(size)])
        return lambda: model.eval().write(begun, task["tokens"])
    adam = optimizer(model, RATE)
    batch = texts(size)

    def step():
        x, y = map(torch.from_numpy, batch)
        adam.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        return loss.item()

    return step


def memory(size, tokens):
    """Every matrix read once for each token."""
    width = size["width"]
    wide = [np.ones((4 * width, width), "float32") for _ in range(3 * size["layers"])]
    vector = np.ones(width, "float32")

    def read():
        for _ in range(tokens):
            for matrix in wide:
                matrix @ vector

    return read
