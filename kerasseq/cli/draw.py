"""`kerasseq train draw`: a model learns to draw pictures from captions.

First a codebook learns to write pictures as ids of their patches and to draw them
again. Then a Transformer learns to write the ids of a picture after its caption. The
data are scenes of colored shapes, which are generated; or a folder of your own pictures
with a table, such as captions.csv with the columns image and text. A part of the
pictures is held out. There the loss is printed in bits per id, beside the frequencies
of the ids and the same model with shuffled captions, and the error of rebuilt pictures
beside the mean picture. For scenes of one shape the nearest real picture tells color
and shape of real, rebuilt and drawn ones.

Examples:
  kerasseq train draw
  kerasseq train draw --num-codes 128 --codebook-steps 1000 --steps 1000
  kerasseq train draw pictures --image-size 32 --patch-size 4
then:
  kerasseq predict runs/draw-1 --text "a small red circle at the top left"
  kerasseq predict runs/draw-1 --file captions.txt --temperature 0.7 --seed 1
  kerasseq inspect runs/draw-1
"""

from typing import TYPE_CHECKING

from kerasseq.cli import (
    draw_models,
    draw_pictures,
    draw_scores,
    figures,
    image_data,
    labeled,
    multimodal_data,
    options,
    runs,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.options import Option

if TYPE_CHECKING:
    from kerasseq.cli.run import Run

FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
NOT_DRAWN = ("frames", "sound")  # what scenes for other tasks have
DEFAULTS = {
    **{k: v for k, v in multimodal_data.DEFAULTS.items() if k not in NOT_DRAWN},
    "noise": 0.0,
    "num_codes": 256,
    "codebook_steps": 1500,
    **models.DEFAULTS,
    "learning_rate": 2e-3,
}
CHOICES = multimodal_data.CHOICES
HELP = {
    **models.HELP,
    "batch_size": "pictures in a batch",
    "learning_rate": "highest learning rate of AdamW, for both trainings",
    "max_minutes": "minutes after which training stops, at the next checkpoint; at "
    "most half of them are for the codebook",
    "noise": "of the pixels of scenes; the codebook needs clean pictures",
    "patch_size": "height and width of a patch, which is one id (default: 3 for scenes "
    f"of {multimodal_data.SIZE} pixels, else for at most about 8 × 8)",
}
_CODES = "ids of the codebook, which patches are written with"
OPTIONS = (
    *multimodal_data.OPTIONS,
    Option("--num-codes --codes", options.integer(2, 2**16), _CODES, group="model"),
    Option(
        "--codebook-steps",
        options.integer(),
        "training steps of the codebook, before those of the model",
        group="training",
    ),
    *models.OPTIONS,
)
REPEATED = "Scenes without noise repeat: they differ by what captions say, and a little"
REPEATED += " by place"
_ONLY_PICTURES = "kerasseq train draw writes single pictures, so scenes have no "
UNKNOWN = {
    "--frames": f"{_ONLY_PICTURES}films. For films: kerasseq train captions --frames 4",
    "--sound": f"{_ONLY_PICTURES}sounds. For sounds: kerasseq train contrastive "
    "--sound",
}


def train(run: "Run") -> runs.Results:
    """Trains codebook and model, and compares them with what needs no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    trained = draw_models.fit(run)
    model, console = trained.model, run.console
    rows = draw_scores.rows(trained.held_out, run.settings.seed)
    tested = multimodal_data.take(trained.held_out, rows)
    pictures = draw_pictures.draw_all(model, tested)
    scores = draw_scores.scores(model, trained.learned, tested, pictures)
    judged = draw_scores.judge(scores)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    results = run.results(
        *(model, trained.history, trained.steps),
        **draw_scores.plain(scores),
        verdict=judged,
        codebook=draw_models.codebook_results(run),
        drawn=len(rows),
        repeated=repeated,
    )
    draw_scores.show(console, scores)
    console.write(judged["sentence"])
    advice = {} if run.settings.file else {"advice": REPEATED}
    labeled.show_repeated(console, repeated, len(rows), "pictures", **advice)
    title = f"draw on {image_data.printable(run.settings.file or 'scenes')}"
    run.draw(
        lambda: [
            figures.history(run.folder, trained.history, "loss", title),
            draw_pictures.save(run.folder, tested.texts, pictures),
        ]
    )
    return run.finish(results)
