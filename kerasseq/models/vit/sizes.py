"""Heights and widths of images, patches and grids of patches."""

from collections.abc import Sequence

from kerasseq.core import checks


def pair(name: str, value: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """Returns a height and a width; one number stands for both.

    Examples:
        >>> pair("patch_size", 16), pair("image_size", (28, 32))
        ((16, 16), (28, 32))
        >>> pair("patch_size", (2, 2, 3))
        Traceback (most recent call last):
        ...
        TypeError: patch_size must be a whole number or (height, width), received \
(2, 2, 3)
    """
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise TypeError(
                f"{name} must be a whole number or (height, width), received {value!r}"
            )
        return tuple(checks.whole_number(name, one) for one in value)
    return (checks.whole_number(name, value),) * 2


def grid(
    image_size: Sequence[int | None], patch_size: Sequence[int]
) -> tuple[int | None, ...]:
    """Returns rows and columns of the grid of patches; None for an unknown size.

    Raises:
        ValueError: If the patch size does not divide the image size, or that is 0.

    Examples:
        >>> grid((224, 224), (16, 16))
        (14, 14)
        >>> grid((30, 28), (14, 14))
        Traceback (most recent call last):
        ...
        ValueError: patch_size must divide the image size 30 × 28, received 14 × 14. \
Choose another patch_size, or crop, pad or resize the images
    """
    known = list(zip(image_size, patch_size, strict=True))
    if any(size is not None and size % patch for size, patch in known):
        shown = [" × ".join(map(str, size)) for size in (patch_size, image_size)]
        raise ValueError(
            f"patch_size must divide the image size {shown[1]}, received {shown[0]}. "
            "Choose another patch_size, or crop, pad or resize the images"
        )
    if 0 in image_size:
        shown = " × ".join(map(str, image_size))
        raise ValueError(f"images must have at least one patch, received {shown}")
    return tuple(None if size is None else size // patch for size, patch in known)
