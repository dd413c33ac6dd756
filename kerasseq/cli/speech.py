"""`kerasseq train speech`: a model learns to write down sounds.

Train a speech recognizer on sounds and their texts, without times: messages in Morse
code, which are generated, or a folder of WAV files with a table of transcripts. A part
of the sounds is held out. There the share of characters and of words that the model
writes wrong is printed, beside that of the empty text, which is 1, and of the most
frequent text.

At first, for at least 500 to 650 steps, nothing is learned: the model writes nothing,
and the error rate is 1. A run that ends before step 750 shows that, and no error of the
model; with few sounds, or hard ones, it takes longer. A whisper needs far more: of the
messages in Morse code it has learned nothing after 2,000 steps.

Examples:
  kerasseq train speech
  kerasseq train speech --data recordings --tokenizer character --steps 5000
  kerasseq train speech --data morse --model gru --count 500 --steps 1500
  kerasseq train speech --data recordings --spec-augment --patience 10
  kerasseq train speech --data recordings --model whisper --num-layers 4
then:
  kerasseq transcribe runs/speech-conformer-1 sound.wav --align picture.png
  kerasseq evaluate runs/speech-conformer-1
"""

from typing import TYPE_CHECKING, Any

from kerasseq.cli import (
    figures,
    labeled,
    options,
    runs,
    schedule,
    speech_data,
    speech_models,
    speech_scores,
)
from kerasseq.cli.console import status
from kerasseq.cli.options import Option
from kerasseq.cli.speech_data import MORSE

if TYPE_CHECKING:
    from kerasseq.cli.run import Run

FILE = None  # `data` names the folder as well
PATHS = ("data",)
MODELS = ("conformer", speech_models.WHISPER, *options.ARCHITECTURES)
NORMALIZATIONS = ("layer", "batch")
DEFAULTS = {
    "model": "conformer",
    "data": MORSE,
    "count": 2000,
    "audio_column": None,
    "text_column": None,
    "encoding": "utf-8",
    "missing": "error",
    "held_out": 0.1,
    "sampling_rate": None,
    "num_mels": None,
    "tokenizer": "character",
    "vocabulary_size": options.VOCABULARY_SIZE,
    "units": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout": 0.0,
    "normalization": "layer",
    "spec_augment": False,
    "batch_size": 16,
    "learning_rate": 2e-3,
    "warm_up": 300,
    **schedule.STOPPED,
    "patience": 0,
}
LEAST_STEPS = 2000  # if neither --epochs nor --steps is given
WEIGHT_DECAY, BETA_2 = 0.01, 0.98  # of AdamW
CHOICES = {"model": MODELS, "data": (MORSE,), "normalization": NORMALIZATIONS}
HELP = {
    "held_out": "fraction of the sounds that is held out",
    "num_heads": "attention heads of a conformer or a whisper",
    "batch_size": "sounds in a batch",
    "learning_rate": "highest learning rate of AdamW",
    "epochs": f"passes over the sounds (default: {options.EPOCHS}, or as many as "
    f"{LEAST_STEPS:,} steps take)",
    "patience": "validations without a lower loss after which training stops, with "
    "the best weights; 0 trains all steps. At first nothing is learned: choose at "
    "least 10",
}
_DATA = "morse, which is generated, or a folder of WAV files with a table of their "
_DATA += "names and texts"
_AUDIO = "column of the names of the files (default: file, audio or path)"
_TEXT = "column of the transcripts (default: text, transcript or sentence)"
_RATE = "samples a second; others are resampled (default: 16000; 8000 for morse)"
_NORM = "of the convolution of a conformer"
_AUGMENT = "mask random bands and moments of the spectrogram in training"
_MELS = "bands of the spectrogram (default: 80; 20 for morse)"
OPTIONS = (
    Option("--data", str, _DATA, "FOLDER", "data"),
    Option(
        "--count", options.integer(2, 10**6), "messages in Morse code", group="data"
    ),
    Option("--audio-column", str, _AUDIO, "COLUMN", "data"),
    Option("--text-column", str, _TEXT, "COLUMN", "data"),
    Option("--sampling-rate", options.integer(100, 10**6), _RATE, group="data"),
    Option("--num-mels", options.integer(at_most=512), _MELS, group="data"),
    Option("--normalization", "normalization", _NORM, "NAME", "model"),
    Option("--spec-augment", None, _AUGMENT, group="training"),
    Option(
        "--warm-up",
        options.integer(0),
        "steps in which the learning rate rises",
        group="training",
    ),
)


def train(run: "Run") -> runs.Results:
    """Trains the model, and compares its transcripts with those of no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    speech_data.check(settings, DEFAULTS)
    speech_models.check(settings, DEFAULTS)
    speech_data.complete(settings)
    sounds, data = run.read("the sounds", speech_data.read)
    learned, held_out = speech_data.split(sounds, settings)
    # All frames of the spectrogram count as one: a lower bound.
    schedule.check_memory(settings, len(learned.texts))
    with status("building the model"):
        model = speech_models.build(settings, sounds, learned.texts)
    with status("reading the sounds"), speech_data.named(learned.audio):
        part, validation = speech_data.validation_part(learned, settings)
        batches = model.batches(
            part, batch_size=settings.batch_size, seed=settings.seed
        )
    keys = speech_data.keys(learned.audio)
    words = f"{data['source']}: {len(learned.texts):,} sounds to learn from, "
    words += f"{len(held_out.texts):,} held out; {settings.sampling_rate:,} samples a "
    words += f"second, {settings.num_mels} mel bands."
    run.start(data, words, keys)
    steps = compile_for(model, settings, batches.steps_per_epoch)
    history = run.fit(model, batches, steps, None, validation=validation)
    texts = speech_scores.transcripts(model, held_out.audio, settings.batch_size)
    found = speech_scores.compare(settings.model, texts, learned.texts, held_out.texts)
    found |= {"examples": speech_scores.examples(texts, held_out.texts)}
    found |= {"sounds": len(sounds.texts), "held_out": len(held_out.texts)}
    found["repeated"] = labeled.repeated(keys, speech_data.keys(held_out.audio))
    results = run.results(model, history, steps, **found)
    show(run, results)
    title = f"{settings.model} on {data['source']}"
    run.draw(lambda: [figures.history(run.folder, history, "loss", title)])
    return run.finish(results)


def compile_for(model: Any, settings: options.Settings, steps_per_epoch: int) -> int:
    """Compiles a model with AdamW: warm-up, then a cosine to 0.

    Args:
        model: The model.
        settings: Arguments of the run.
        steps_per_epoch: Batches in an epoch.

    Returns:
        The number of training steps.
    """
    steps = schedule.number_of_steps(settings, steps_per_epoch, at_least=LEAST_STEPS)
    warm_up, rate = min(settings.warm_up, steps // 2), settings.learning_rate
    of_adam = {"weight_decay": WEIGHT_DECAY, "beta_2": BETA_2}
    model.compile(
        schedule.adam(rate, steps, warm_up, first=rate / (warm_up + 1), **of_adam)
    )
    return steps


def show(run: "Run", results: runs.Results) -> None:
    """Prints transcripts, the error rates and the sentences about them."""
    console, tested = run.console, results["held_out"]
    speech_scores.show_examples(console, results["examples"], "Held-out sounds")
    rows = {**results["baselines"], results["model"]: results}
    title = f"Errors on {tested:,} held-out sounds, per character and per word"
    speech_scores.show_rates(console, title, rows)
    console.write(results["verdict"]["sentence"])
    if results["character_error_rate"] >= 1:
        console.write(speech_models.late(results["model"]))
    labeled.show_repeated(console, results["repeated"], tested, "sounds")
