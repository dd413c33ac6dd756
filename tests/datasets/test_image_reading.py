"""Reading images of every mode, size and rotation as arrays."""

import numpy as np
import pytest
from PIL import Image

from kerasseq.datasets import read_image

RNG = np.random.default_rng(0)
COLORS = RNG.integers(0, 256, (5, 7, 3), "uint8")
GRAY = RNG.integers(0, 256, (5, 7), "uint8")


@pytest.fixture
def save(tmp_path):
    def save(image, name="a.png", **options):
        if isinstance(image, np.ndarray):
            image = Image.fromarray(image)
        image.save(tmp_path / name, **options)
        return tmp_path / name

    return save


def test_pixels_are_those_of_the_file(save):
    np.testing.assert_array_equal(read_image(save(COLORS)), COLORS)
    file = save(GRAY)
    np.testing.assert_array_equal(read_image(file, channels=1)[..., 0], GRAY)
    np.testing.assert_array_equal(read_image(file), np.stack([GRAY] * 3, axis=-1))
    assert read_image(str(file)).dtype == "uint8"


def test_color_becomes_gray_by_luma(save):
    found = read_image(save(COLORS), channels=1)[..., 0]
    luma = COLORS @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(found, luma, atol=1)


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA", "CMYK", "YCbCr"])
def test_other_modes(save, mode):
    name = "a.tif" if mode in ("CMYK", "YCbCr") else "a.png"
    image = Image.fromarray(COLORS).convert(mode)
    found = read_image(save(image, name))
    np.testing.assert_allclose(found, image.convert("RGB"), atol=1)


def test_transparent_pixels_are_white(save):
    pixels = np.zeros((1, 3, 4), "uint8")
    pixels[0, :, 3] = 0, 255, 51  # black, with a share of 0, 1 and 0.2
    file = save(pixels)
    assert read_image(file, channels=1)[0, :, 0].tolist() == [255, 0, 204]
    np.testing.assert_array_equal(read_image(file, channels=4), pixels)
    palette = Image.fromarray(np.array([[0, 1]], "uint8"))
    palette.putpalette([0, 0, 0, 9, 9, 9])
    file = save(palette, "p.png", transparency=0)
    assert read_image(file)[0, :, 0].tolist() == [255, 9]


def test_more_than_8_bits(save):
    values = np.array([[0, 257, 65535]], "uint16")
    assert read_image(save(values), channels=1)[0, :, 0].tolist() == [0, 1, 255]
    fractions = np.array([[0, 0.2, 1]], "float32")
    file = save(fractions, "f.tif")
    assert read_image(file, channels=1)[0, :, 0].tolist() == [0, 51, 255]
    for wrong in (np.array([[0, 2]], "float32"), np.array([[np.nan]], "float32")):
        with pytest.raises(ValueError, match=r"f.tif .* gray values from 0 to 1,"):
            read_image(save(wrong, "f.tif"))
    with pytest.raises(ValueError, match=r"from 0 to 65,535, received 0 to 70000"):
        read_image(save(np.array([[0, 70000]], "int32"), "i.tif"))


def test_rotation_of_a_camera(save):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be rotated by 90 degrees, clockwise
    file = save(COLORS, exif=exif)
    np.testing.assert_array_equal(read_image(file), np.rot90(COLORS, -1))


def test_the_first_image_of_an_animation(save):
    frames = [Image.new("L", (2, 2), value) for value in (40, 200)]
    file = save(frames[0], "a.gif", save_all=True, append_images=frames[1:])
    assert (read_image(file, channels=1) == 40).all()


def test_other_aspect_ratios(save):
    """A red, a green and a blue square beside each other."""
    squares = np.repeat(np.eye(3, dtype="uint8") * 255, 20, axis=0)
    file = save(np.repeat(squares[None], 20, axis=0))  # (20, 60, 3)
    crop = read_image(file, (4, 4), resize="crop")
    assert (crop[..., 1] > 220).all()  # green, but for antialiasing at the edge
    pad = read_image(file, (6, 6), resize="pad")
    assert pad[:2].max() == pad[4:].max() == 0
    assert pad[2:4, [0, 2, 5]].argmax(axis=-1).tolist() == [[0, 1, 2]] * 2
    stretch = read_image(file, (2, 3), resize="stretch")
    assert stretch.argmax(axis=-1).tolist() == [[0, 1, 2]] * 2


def test_a_large_jpeg_is_resized_like_others(save):
    ramp = np.linspace(0, 255, 640).astype("uint8")
    picture = np.repeat(np.repeat(ramp[None], 480, axis=0)[..., None], 3, axis=-1)
    jpeg = read_image(save(picture, "a.jpg", quality=95), (8, 8))
    png = read_image(save(picture), (8, 8))
    np.testing.assert_allclose(jpeg.astype(int), png.astype(int), atol=3)


def test_files_that_are_no_images(tmp_path, save):
    whole = save(RNG.integers(0, 256, (40, 40, 3), "uint8")).read_bytes()
    contents = {"text.png": b"no image", "empty.jpg": b"", "cut.png": whole[:2000]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} cannot be read as an image: "):
            read_image(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"no\.png"):
        read_image(tmp_path / "no.png")
    with pytest.raises(IsADirectoryError):
        read_image(tmp_path)


def test_wrong_arguments(save):
    file = save(GRAY)
    with pytest.raises(ValueError, match="channels=2 is not one of 1, 3, 4"):
        read_image(file, channels=2)
    with pytest.raises(ValueError, match='resize="cut" is not one of "crop"'):
        read_image(file, (2, 2), resize="cut")
    with pytest.raises(ValueError, match="size must be at least 1"):
        read_image(file, (0, 2))
    with pytest.raises(TypeError, match="`file` must be a path"):
        read_image(GRAY)
