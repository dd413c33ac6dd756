"""Sizes of pictures and films, and of their patches."""

from typing import Any

from kerasseq.core import checks

Sizes = tuple[int, ...] | None


def check_sizes(image_size: Any, patch_size: Any, num_mels: Any) -> tuple[Sizes, Sizes]:
    """Returns the sizes of a picture or film and of a patch; None without pictures.

    Args:
        image_size: A number, 2 or 3 of them, or None.
        patch_size: The same.
        num_mels: Whether the model reads sounds, if it is not None.

    Raises:
        TypeError: If a size is no whole number.
        ValueError: If a patch does not fit, one of them is missing, or the model would
            read neither pictures nor sounds.

    Examples:
        >>> check_sizes(24, 6, None), check_sizes((4, 24, 12), (2, 6, 6), None)
        (((24, 24), (6, 6)), ((4, 24, 12), (2, 6, 6)))
        >>> check_sizes(24, 5, None)
        Traceback (most recent call last):
        ...
        ValueError: patch_size must divide image_size=(24, 24), received (5, 5). \
Choose another patch_size, or crop or resize the images
    """
    if image_size is None and patch_size is None:
        if num_mels is None:
            raise ValueError(
                "expected image_size and patch_size, for pictures, or num_mels, for "
                "sounds, received none of them"
            )
        return None, None
    if image_size is None or patch_size is None:
        raise ValueError(
            "image_size and patch_size must be given together, received "
            f"image_size={image_size} and patch_size={patch_size}"
        )
    sizes = _several("image_size", image_size)
    patch = _several("patch_size", patch_size)
    if len(sizes) != len(patch):
        raise ValueError(
            "patch_size must have as many numbers as image_size, (height, width) for "
            "pictures and (frames, height, width) for films, received "
            f"image_size={sizes} and patch_size={patch}"
        )
    if any(size % part for size, part in zip(sizes, patch, strict=True)):
        raise ValueError(
            f"patch_size must divide image_size={sizes}, received {patch}. Choose "
            "another patch_size, or crop or resize the images"
        )
    return sizes, patch


def _several(name, value):
    """Returns a size as two or three whole numbers."""
    if not isinstance(value, list | tuple):
        value = (value, value)
    if len(value) not in (2, 3):
        raise TypeError(
            f"{name} must be a whole number, (height, width), or (frames, height, "
            f"width), received {value!r}"
        )
    return tuple(checks.size(name, one) for one in value)
