"""Folders of images: one folder per client, in it one folder per class.

    hospitals/
      aachen/healthy/001.png   aachen/ill/002.png
      test/healthy/…           test/ill/…

All become arrays of one shape (rows, channels, height, width), from 0 to 1. Nothing is cropped, and nothing is resized
unless `size` says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue._text import listed, plural
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._checks import unknown
from fedvalue.scenarios._readings import plain
from fedvalue.scenarios._tables import Table

__all__ = ["CLASS", "Images", "Look", "has_images", "holds_images", "read_images"]

CLASS = "class"
"""What the label is called where folders are the classes."""
_SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".pgm", ".ppm"])
_COLOURS = {"grey": "L", "rgb": "RGB"}
_GREY = ("1", "L", "LA", "I", "I;16", "I;16B")
_SIXTEEN_BITS = 65535
_SIZE = re.compile(r"([0-9]{1,5})(?:x([0-9]{1,5}))?")
_NAMED = 4


@dataclass(frozen=True)
class Look:
    """How images are to be brought to one shape: height and width, and grey or rgb; None leaves them as they are."""

    size: tuple[int, int] | None = None
    colour: str | None = None

    @classmethod
    def of(cls, size: Any, colour: str | None) -> Look:
        """From what was given: 32, "32" or "32x48" (height × width); "grey" or "rgb"."""
        if colour is not None and colour not in _COLOURS:
            raise unknown("colour", colour, _COLOURS)
        if size is None:
            return cls(None, colour)
        found = _SIZE.fullmatch(str(size).strip().lower())
        height, width = (int(part) for part in (found[1], found[2] or found[1])) if found else (0, 0)
        if not height or not width:
            raise ScenarioError(f"size is height and width in pixels, such as 32 or 32x48. Got {size!r}.")
        return cls((height, width), colour)


@dataclass(frozen=True)
class Images:
    """The labels of each folder as a table, the pixels of each, and what was done."""

    tables: list[Table]
    pixels: list[NDArray[np.float32]]
    done: tuple[str, ...]


def has_images(folder: Path) -> bool:
    """Whether the folder is a client with images, by class or not yet."""
    return folder.is_dir() and (holds_images(folder) or any(map(holds_images, _folders(folder))))


def holds_images(folder: Path) -> bool:
    """Whether images lie in the folder itself."""
    return any(_is_image(entry) for entry in folder.iterdir())


def read_images(folders: Sequence[Path], look: Look, label: str) -> Images:
    """All images of all folders, in the order of their names, in one shape."""
    pillow = need("PIL.Image", "Reading images")
    files = [_by_class(folder) for folder in folders]
    opened = [[_opened(pillow, path) for path, _ in of_folder] for of_folder in files]
    everything = [image for of_folder in opened for image in of_folder]
    if not everything:
        raise ScenarioError("None of the folders holds an image.")
    grey = all(image.mode in _GREY for image in everything)
    mode = _COLOURS[look.colour or ("grey" if grey else "rgb")]
    sizes = Counter(image.size for image in everything)
    if look.size is None and len(sizes) > 1:
        shown = listed(
            [f"{high} × {wide} ({plural(n, 'image')})" for (wide, high), n in sizes.most_common()], _NAMED
        )
        raise ScenarioError(
            f"Images must have one size (height × width). There are {shown}. Say to which they are to be resized, such as "
            "size=32 or size=32x48."
        )
    wide, high = next(iter(sizes)) if look.size is None else look.size[::-1]
    tables = [
        Table(
            folder,
            {label: [name for _, name in of_folder]},
            [str(path.relative_to(folder)) for path, _ in of_folder],
            unit="image",
        )
        for folder, of_folder in zip(folders, files, strict=True)
    ]
    shape = (-1, 1 if mode == "L" else 3, high, wide)
    pixels = [
        np.asarray([_pixels(pillow, image, mode, (wide, high)) for image in of_folder], np.float32).reshape(
            shape
        )
        for of_folder in opened
    ]
    resized = sum(n for size, n in sizes.items() if size != (wide, high))
    done = [f"images in {'grey' if mode == 'L' else 'red, green and blue'}, from 0 to 1"]
    done += [f"{plural(resized, 'image')} resized to {high} × {wide}"] if resized else []
    return Images(tables, pixels, tuple(done))


def _by_class(folder: Path) -> list[tuple[Path, str]]:
    """The images of a client with their classes. Whatever else lies there is refused: it might be a row."""
    loose = [entry for entry in _entries(folder) if not entry.is_dir()]
    if loose:
        raise ScenarioError(
            f"{loose[0]}: expected one folder per class in the folder of a client, and images in those. Move it into the folder "
            "of its class, or elsewhere."
        )
    found = []
    for of_class in _entries(folder):
        for entry in _entries(of_class):
            if not _is_image(entry):
                raise ScenarioError(
                    f"{entry} is not an image that is read ({', '.join(sorted(_SUFFIXES))}). Convert it or move it elsewhere."
                )
            found.append((entry, plain(of_class.name)))
    return found


def _opened(pillow: Any, path: Path) -> Any:
    """The picture as a person sees it: turned the way that its camera noted."""
    turned = need("PIL.ImageOps", "Reading images").exif_transpose
    try:
        with pillow.open(path) as image:
            if getattr(image, "n_frames", 1) > 1:
                raise ScenarioError(f"{path} holds {image.n_frames} pictures. Expected one per file.")
            if image.mode == "F" or (image.mode == "I" and image.getextrema()[1] > _SIXTEEN_BITS):
                raise ScenarioError(
                    f"{path} has more than sixteen bits a pixel. Save it with eight or sixteen."
                )
            return turned(image).copy()
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise ScenarioError(f"{path} cannot be read as an image: {error}. Is the file complete?") from error


def _pixels(pillow: Any, image: Any, mode: str, size: tuple[int, int]) -> NDArray[np.float32]:
    """Channels first, from 0 to 1; sixteen bits stay sixteen bits until then."""
    if image.mode.startswith("I"):
        fractions = pillow.fromarray(np.asarray(image, np.float32) / _SIXTEEN_BITS)
        grey = np.asarray(fractions.resize(size) if image.size != size else fractions, np.float32)[None]
        return np.repeat(grey, 1 if mode == "L" else 3, axis=0)
    image = image.convert(mode)
    image = image.resize(size) if image.size != size else image
    numbers: NDArray[np.float32] = np.asarray(image, np.float32) / np.float32(255)
    return numbers[None] if mode == "L" else np.moveaxis(numbers, -1, 0)


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _folders(folder: Path) -> list[Path]:
    return [entry for entry in _entries(folder) if entry.is_dir()]


def _is_image(entry: Path) -> bool:
    return entry.suffix.lower() in _SUFFIXES and entry.is_file() and not entry.name.startswith(".")
