"""How a folder of Hugging Face prepares images: it must be as `ViT` does it."""

from kerasseq.pretrained import folders
from kerasseq.pretrained.settings import Settings

FILE = "preprocessor_config.json"
CENTRE = 0.5  # mean and deviation that bring pixels from 0 and 1 to -1 and 1


def check(folder):
    """Raise if there is a file that brings pixels to other values than -1 to 1.

    Args:
        folder: The folder, a path.
    """
    if not (folder / FILE).is_file():
        return
    settings = Settings(folders.read_table(folder / FILE), folder / FILE)
    settings.only(do_normalize=True, do_rescale=True, rescale_factor=1 / 255)
    for name in ("image_mean", "image_std"):
        values = settings.get(name, CENTRE)
        values = values if isinstance(values, list) else [values]
        if any(value != CENTRE for value in values):
            settings.refuse(name, "0.5 for each channel", "ViT has")
