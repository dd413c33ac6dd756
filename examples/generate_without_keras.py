"""Writes text with an exported model: onnxruntime, NumPy and tokenizers, no Keras.

kerasseq export runs/plays --format onnx --out plays
python generate_without_keras.py plays 40 "To be" "O Romeo, Romeo"
"""

import json
import sys
from itertools import takewhile, zip_longest

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer


def main(folder: str, count: str, *prompts: str) -> None:
    """Prints each text with `count` more tokens, always the most probable ones."""
    with open(f"{folder}/generation.json", encoding="utf-8") as file:
        known = json.load(file)
    reader, writer = (Tokenizer.from_file(f"{folder}/{x}") for x in known["tokenizers"])
    prompt, step = (InferenceSession(f"{folder}/{x}.onnx") for x in ("prompt", "step"))
    read = [reader.encode(text, add_special_tokens=False).ids for text in prompts]
    read = [[i + known["offset"] for i in row] for row in read]
    read = [known["before"] + row + known["after"] for row in read]
    state = {"lengths": [*map(len, read)], "capacity": max(map(len, read)) + int(count)}
    state["ids"] = np.transpose([*zip_longest(*read, fillvalue=known["padding"])])
    texts = read if known["has_prompt"] else [[] for _ in read]
    for program in [prompt] + [step] * (int(count) - 1):
        inputs = {x.name: np.array(state[x.name]) for x in program.get_inputs()}
        names = [x.name.removeprefix("next.") for x in program.get_outputs()]
        state |= zip(names, program.run(None, inputs), strict=True)
        state["token"] = state["logits"].argmax(axis=-1)  # (B,)
        texts = [[*row, i] for row, i in zip(texts, state["token"], strict=True)]
    for row in texts:
        ids = takewhile(lambda i: i not in known["end"], row)
        print(writer.decode([i - known["offset"] for i in ids], False))


if __name__ == "__main__":
    main(*sys.argv[1:])
