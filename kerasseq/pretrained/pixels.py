"""How a folder of others prepares images: it must be as `ViT` does it."""

import math

from kerasseq.pretrained import folders
from kerasseq.pretrained.settings import Settings

FILE = "preprocessor_config.json"
CENTRE = 0.5  # mean and deviation that bring pixels from 0 and 1 to -1 and 1
HUB_FILE = "image_converter.json"
HUB = {"scale": 1 / 127.5, "offset": -1.0}  # the same of pixels from 0 to 255


def check(folder):
    """Raise if there is a file that brings pixels to other values than -1 to 1.

    Args:
        folder: The folder, a path.
    """
    if (folder / FILE).exists():
        settings = Settings(folders.read_table(folder / FILE), folder / FILE)
        settings.only(do_normalize=True, do_rescale=True, rescale_factor=1 / 255)
        for name in ("image_mean", "image_std"):
            _check(settings, name, settings.get(name, CENTRE), CENTRE)
    if (folder / HUB_FILE).exists():
        table = Settings(folders.read_table(folder / HUB_FILE), folder / HUB_FILE)
        settings = table.part("config")
        for name, right in HUB.items():
            _check(settings, name, settings.get(name, "nothing"), right)


def _check(settings, name, values, right):
    """Raise unless it is this number, for all channels or for each."""
    for value in values if isinstance(values, list) else [values]:
        if not isinstance(value, int | float) or not math.isclose(
            value, right, rel_tol=1e-6
        ):
            settings.refuse(name, f"{right:g} for each channel", "ViT has")
