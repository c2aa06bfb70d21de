"""Small files in the formats of the real data sets: a few hundred rows, all different."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np


def write_data_sets(folder: Path) -> Path:
    """MNIST with writers, Adult, Sentiment140 and a user's folder; returns the data folder."""
    draw = np.random.default_rng(7)
    for name in ("mnist", "femnist", "adult", "sent140", "files"):
        (folder / name).mkdir()
    _mnist(folder, draw)
    _adult(folder / "adult", draw)
    _sent140(folder / "sent140", draw)
    for client in ("aachen", "bonn", "cologne", "dortmund"):
        (folder / "files" / f"{client}.csv").write_text(table(draw, 40))
    (folder / "files" / "test.csv").write_text(table(draw, 30))
    return folder


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, ">u4").tobytes() + array.tobytes()


def table(draw: np.random.Generator, rows: int) -> str:
    lines = ["age,ward,outcome"]
    for k in range(rows):
        lines.append(f"{draw.normal(50, 10):.6f},{'abc'[draw.integers(3)]},{('well', 'ill')[k % 2]}")
    return "\n".join(lines) + "\n"


def _mnist(folder: Path, draw: np.random.Generator) -> None:
    for part, rows in (("train", 400), ("t10k", 60)):
        labels = (np.arange(rows) % 10).astype(np.uint8)
        images = draw.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
        path = folder / "mnist" / f"{part}-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(idx(images)))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))  # not compressed: as good
    writer = np.repeat(np.arange(10), 40)
    label = (np.arange(400) % 10).astype(np.uint8)
    np.savez(folder / "femnist" / "mnist_writer_ids.npz", train_writer=writer, train_label=label)


def _adult(folder: Path, draw: np.random.Generator) -> None:
    jobs = ["Sales", "Tech-support", "Craft-repair", "Adm-clerical", "?"]

    def lines(rows: int, end: str) -> str:
        return "".join(
            f"{draw.integers(17, 90)}, Private, {100_000 + draw.integers(10**8)}, HS-grad, "
            f"{draw.integers(1, 17)}, Divorced, {jobs[k % 5]}, Husband, White, {('Male', 'Female')[k % 2]}, "
            f"{draw.integers(5000)}, {draw.integers(50)}, {draw.integers(10, 80)}, Peru, "
            f"{('<=50K', '>50K')[k % 3 == 0]}{end}\n"
            for k in range(rows)
        )

    (folder / "adult.data").write_text(lines(250, "") + "\n")
    (folder / "adult.test.gz").write_bytes(gzip.compress(f"|1x3 Cross validator\n{lines(90, '.')}".encode()))


def _sent140(folder: Path, draw: np.random.Generator) -> None:
    def tweets(rows: int, first_user: int, word: str) -> bytes:
        lines = ["user,tweet_id,label,date,text"]
        for k in range(rows):
            text = f'"@bob {word}{_letters(k)}, I {("hate", "love")[k % 2]} it! http://t.co/{k}"'
            lines.append(f"{first_user + k % 30},{k},{k % 2},Sat May 16,{text}")
        return gzip.compress("\n".join(lines).encode())

    (folder / "sent140_by_user.csv.gz").write_bytes(tweets(300, 0, "good"))
    (folder / "sent140_random.csv.gz").write_bytes(tweets(80, 15, "new"))


def _letters(k: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(k))
