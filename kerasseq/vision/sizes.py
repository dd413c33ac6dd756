"""Heights and widths: of images, of patches, and how many of these fit into those."""

from kerasseq.core import checks


def pair(name, value):
    """A height and a width, from both or from one number for both.

    Examples:
        >>> pair("patch_size", 16), pair("image_size", (28, 32))
        ((16, 16), (28, 32))
        >>> pair("patch_size", (2, 2, 3))
        Traceback (most recent call last):
        ...
        TypeError: patch_size must be a whole number or (height, width), got (2, 2, 3)
    """
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise TypeError(
                f"{name} must be a whole number or (height, width), got {value!r}"
            )
        return tuple(checks.whole_number(name, one) for one in value)
    return (checks.whole_number(name, value),) * 2


def grid(image_size, patch_size):
    """Rows and columns of patches; None where a size is not known.

    Raises:
        ValueError: If the patches do not fill the image.

    Examples:
        >>> grid((224, 224), (16, 16))
        (14, 14)
        >>> grid((30, 28), (14, 14))
        Traceback (most recent call last):
        ...
        ValueError: patches of 14 × 14 pixels do not fill an image of 30 × 28: choose \
a patch_size that divides its height and width, or crop, pad or resize the images
    """
    known = list(zip(image_size, patch_size, strict=True))
    if any(size is not None and size % patch for size, patch in known):
        shown = [" × ".join(map(str, size)) for size in (patch_size, image_size)]
        raise ValueError(
            f"patches of {shown[0]} pixels do not fill an image of {shown[1]}: choose "
            "a patch_size that divides its height and width, or crop, pad or resize "
            "the images"
        )
    return tuple(None if size is None else size // patch for size, patch in known)
