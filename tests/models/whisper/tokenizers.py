"""Small tokenizers with the layout of Whisper's, trained by the package tokenizers."""

import json

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from kerasseq.datasets import python_reference
from kerasseq.models.whisper.special_tokens import END, whisper_special_tokens

TEXTS = [
    " It's  2026's déjà-vu:\n\n\tnaïve ﬁligree",
    "Grüße aus Köln, Привет мир! 北京 日本語 हिन्दी 🙂🏽",
    "<|startoftranscript|><|en|><|transcribe|><|0.00|> Hello!<|0.02|><|endoftext|>",
    "<|30.00|><|30.02|><|nospeech|> <|xx|><|startofprev|>a",
    "",
]


def write_files(folder, size=400):
    """Writes `vocab.json`, `merges.txt` and `added_tokens.json`, as published.

    As there, the last token before the special ones is empty.
    """
    peer = tokenizers.Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    peer.train_from_iterator([python_reference()[:20_000], *TEXTS[:2]], trainer)
    model = json.loads(peer.to_str())["model"]
    vocabulary = {**model["vocab"], "": size, END: size + 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    merges = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    (folder / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    added = {t: size + 1 + n for n, t in enumerate(whisper_special_tokens())}
    added.pop(END)
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    return folder
