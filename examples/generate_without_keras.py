"""Continues texts, without Keras: the FOLDER of kerasseq export, a COUNT, each TEXT."""

import json
import sys
from itertools import takewhile, zip_longest

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer


def main(folder: str, count: str, *prompts: str) -> None:
    """Prints each text with `count` more tokens, always the most probable ones."""
    with open(f"{folder}/generation.json", encoding="utf-8") as file:
        own = json.load(file)
    reader, writer = (Tokenizer.from_file(f"{folder}/{x}") for x in own["tokenizers"])
    prompt, step = (InferenceSession(f"{folder}/{x}.onnx") for x in ("prompt", "step"))
    read = [reader.encode(text, add_special_tokens=False).ids for text in prompts]
    read = [own["before"] + [i + own["offset"] for i in x] + own["after"] for x in read]
    texts = read if own["has_prompt"] else [[] for _ in read]
    if (size := max(map(len, texts)) + int(count)) > (own["context_length"] or size):
        raise ValueError(f"a text ends at {own['context_length']} tokens, not {size}")
    state = {"lengths": [*map(len, read)], "capacity": size}
    state["ids"] = np.transpose([*zip_longest(*read, fillvalue=own["padding"])])
    for program in [prompt] + [step] * (int(count) - 1):
        inputs = {x.name: np.array(state[x.name]) for x in program.get_inputs()}
        names = [x.name.removeprefix("next.") for x in program.get_outputs()]
        state |= zip(names, program.run(None, inputs), strict=True)
        state["token"] = state["logits"].argmax(axis=-1)  # (B,)
        texts = [[*row, i] for row, i in zip(texts, state["token"], strict=True)]
    for row in texts:
        ids = takewhile(lambda i: i not in own["end"], row)
        print(writer.decode([i - own["offset"] for i in ids], False))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, TypeError, ValueError) as error:
        sys.exit(print(f"{error}\n\n{__doc__}", file=sys.stderr) or 2)
