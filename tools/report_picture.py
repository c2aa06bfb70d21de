"""The picture at the top of the README: the ranking in the report of its five lines of Python, in a headless Chromium.

python tools/report_picture.py docs/report.png
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

import fedvalue as fv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from browser import Browser, find_browser

WIDTH, HEIGHT, COLOURS = 1000, 735, 32


def main() -> None:
    program = find_browser()
    if program is None:
        raise SystemExit(
            "The picture is taken in chromium, which is not on the path: apt-get install chromium"
        )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        fv.run("digits", partition="demo").report(page, pot=10_000, currency="EUR")
        with Browser(program, Path(folder) / "profile") as browser:
            browser.open(page, WIDTH, HEIGHT)
            browser.evaluate(
                "[...document.querySelectorAll('h2')].find(h => h.textContent == 'Who gets what').scrollIntoView()"
            )
            png = browser.picture(whole=False)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(sys.argv[1], optimize=True)


if __name__ == "__main__":
    main()
