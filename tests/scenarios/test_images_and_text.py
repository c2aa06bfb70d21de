"""Folders of images, and columns of text: what becomes of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedvalue.cli import app
from fedvalue.errors import ScenarioError
from fedvalue.scenarios import check_folder, load_scenario, preprocessing_of

Image = pytest.importorskip("PIL.Image")


def pictures(where: Path, mode: str = "L", size: tuple[int, int] = (6, 4), seed: int = 0) -> Path:
    """Bonn and Aachen with two classes each, and a test set."""
    rng = np.random.default_rng(seed)
    for client in ("bonn", "aachen", "test"):
        for number, kind in enumerate(["ill", "well", "ill"]):
            folder = where / client / kind
            folder.mkdir(parents=True, exist_ok=True)
            shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
            Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(folder / f"{number}.png")
    return where


class TestImages:
    def test_a_folder_per_client_and_class(self, tmp_path):
        made = load_scenario("files", folder=pictures(tmp_path))
        assert made.names == ("aachen", "bonn")
        assert made.test.x.shape == (3, 1, 4, 6)
        assert made.details["class_names"] == ["ill", "well"]
        assert made.test.y.tolist() == [0, 0, 1]
        first = np.asarray(Image.open(tmp_path / "test" / "ill" / "0.png"), np.float32) / 255
        assert np.array_equal(made.test.x[0, 0], first)

    def test_colours_and_sizes(self, tmp_path):
        folder = pictures(tmp_path, "RGB")
        assert load_scenario("files", folder=folder).test.x.shape == (3, 3, 4, 6)
        grey = load_scenario("files", folder=folder, colour="grey", size="8x9")
        assert grey.test.x.shape == (3, 1, 8, 9)
        assert "9 images resized to 8 × 9" in grey.report.done

    def test_sixteen_bits(self, tmp_path):
        folder = pictures(tmp_path)
        numbers = np.full((4, 6), 65535, np.uint16)
        Image.fromarray(numbers).save(folder / "test" / "ill" / "0.png")
        assert load_scenario("files", folder=folder).test.x[0].min() == 1.0

    def test_copied_images_are_noticed(self, tmp_path):
        folder = pictures(tmp_path)
        for number in range(5):
            copied = np.random.default_rng(number).integers(0, 256, (4, 6)).astype(np.uint8)
            for client in ("aachen", "test"):
                Image.fromarray(copied).save(folder / client / "ill" / f"copy{number}.png")
        assert any("also in aachen" in said for said in check_folder(folder).suspicious)

    def test_another_image_is_another_game(self, tmp_path):
        folder = pictures(tmp_path)
        before = load_scenario("files", folder=folder)
        Image.fromarray(np.zeros((4, 6), np.uint8)).save(folder / "bonn" / "ill" / "0.png")
        after = load_scenario("files", folder=folder)
        assert before.fingerprint != after.fingerprint
        assert before.details["sources"]["bonn"] != after.details["sources"]["bonn"]
        assert before.details["sources"]["test"] == after.details["sources"]["test"]

    @pytest.mark.parametrize(
        ("spoil", "options", "said"),
        [
            (
                lambda f: (f / "bonn" / "ill" / "0.png").write_bytes(b"no image"),
                {},
                "cannot be read as an image",
            ),
            (
                lambda f: (f / "bonn" / "ill" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n"),
                {},
                "cannot be read",
            ),
            (
                lambda f: (f / "bonn" / "ill" / "notes.txt").write_text("x"),
                {},
                "is not an image that is read",
            ),
            (lambda f: (f / "bonn" / "loose.png").write_bytes(b""), {}, "expected one folder per class"),
            (
                lambda f: (f / "docs").mkdir() or (f / "docs" / "a.txt").write_text(""),
                {},
                "one folder per class",
            ),
            (lambda f: Image.new("L", (9, 9)).save(f / "bonn" / "ill" / "9.png"), {}, "size=32"),
            (lambda f: Image.new("F", (6, 4)).save(f / "bonn" / "ill" / "9.tif"), {}, "sixteen bits"),
            (lambda f: (f / "test").rename(f / "exam"), {}, "no test set"),
            (lambda f: (f / "bonn").rename(f / "train"), {}, "not all training rows in one"),
            (lambda f: None, {"size": "big"}, "such as 32 or 32x48"),
            (lambda f: None, {"size": 0}, "such as 32 or 32x48"),
            (lambda f: None, {"colour": "blue"}, "Unknown colour 'blue'"),
            (lambda f: None, {"task": "regression"}, "A regression needs numbers"),
        ],
    )
    def test_refused(self, tmp_path, spoil, options, said):
        folder = pictures(tmp_path)
        spoil(folder)
        with pytest.raises(ScenarioError, match=said):
            load_scenario("files", folder=folder, **options)

    def test_a_film_is_not_a_picture(self, tmp_path):
        folder = pictures(tmp_path)
        frames = [Image.new("L", (6, 4), shade) for shade in (0, 255)]
        frames[0].save(folder / "bonn" / "ill" / "film.gif", save_all=True, append_images=frames[1:])
        with pytest.raises(ScenarioError, match="holds 2 pictures"):
            load_scenario("files", folder=folder)

    def test_the_check_of_the_command_line(self, tmp_path):
        shown = CliRunner().invoke(app, ["data", "check", str(pictures(tmp_path))])
        assert shown.exit_code == 0, shown.output
        assert "Images in grey, from 0 to 1." in shown.output


def reviews(where: Path) -> Path:
    rows = ["good fine day,1", "bad awful day,0"] * 6
    for name in ("a", "b", "test"):
        (where / f"{name}.csv").write_text("review,liked\n" + "\n".join(rows) + "\n")
    return where


class TestText:
    def test_words_become_numbers(self, tmp_path):
        made = load_scenario("files", folder=reviews(tmp_path), label="liked", text="review", length=4)
        assert made.vocabulary == 7
        assert made.test.x.shape == (12, 4)
        assert (made.test.x[:, 3] == 0).all()  # padding
        assert made.report.columns[0].kind == "text"

    def test_the_most_frequent_words_have_numbers(self, tmp_path):
        made = load_scenario("files", folder=reviews(tmp_path), label="liked", text="review", vocabulary=3)
        assert made.vocabulary == 3
        assert set(np.unique(made.test.x)) == {0, 1, 2}

    def test_words_of_the_test_set_are_not_learnt(self, tmp_path):
        folder = reviews(tmp_path)
        before = load_scenario("files", folder=folder, label="liked", text="review")
        (folder / "test.csv").write_text("review,liked\nsplendid news,1\nbad day,0\n")
        after = load_scenario("files", folder=folder, label="liked", text="review")
        assert after.vocabulary == before.vocabulary
        assert after.test.x[0, :2].tolist() == [1, 1]  # unknown

    def test_fixed_words_stay_what_they_are(self, tmp_path):
        (tmp_path / "old").mkdir(), (tmp_path / "new").mkdir()
        first = load_scenario("files", folder=reviews(tmp_path / "old"), label="liked", text="review")
        folder = reviews(tmp_path / "new")
        (folder / "c.csv").write_text("review,liked\nnew words throughout,1\nnew,0\n")
        fixed = load_scenario("files", folder=folder, text="review", preprocessing=preprocessing_of(first))
        assert fixed.vocabulary == first.vocabulary
        assert fixed.clients[0].fingerprint == first.clients[0].fingerprint

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"text": "reviw"}, "Did you mean 'review'"),
            ({"text": "liked"}, "both the label and the text|by itself"),
            ({"text": "review", "drop": "review"}, "dropped and to be used"),
            ({"text": "review", "length": 0}, "length must be"),
        ],
    )
    def test_refused(self, tmp_path, options, said):
        with pytest.raises(ScenarioError, match=said):
            load_scenario("files", folder=reviews(tmp_path), label="liked", **options)

    def test_text_is_trained_on_by_itself(self, tmp_path):
        folder = reviews(tmp_path)
        for name in ("a", "b", "test"):
            lines = (folder / f"{name}.csv").read_text().splitlines()
            numbered = [f"{line},{i}" if i else f"{line},age" for i, line in enumerate(lines)]
            (folder / f"{name}.csv").write_text("\n".join(numbered) + "\n")
        with pytest.raises(ScenarioError, match="drop=age"):
            load_scenario("files", folder=folder, label="liked", text="review")

    def test_a_run_takes_a_model_for_text(self, tmp_path):
        options = [f"--scenario-option={o}" for o in ("text=review", "vocabulary=50")]
        shown = CliRunner().invoke(
            app,
            ["run", "--data-dir", str(reviews(tmp_path)), "--label", "liked", *options, "--exact", "--no-noise", "--rounds", "1"],
        )  # fmt: skip
        assert shown.exit_code == 0, shown.output
        assert "text-mean" in shown.output
