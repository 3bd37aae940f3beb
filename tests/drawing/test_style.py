"""Pictures are written whole, under the names that were given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from manyheads import InputError
from manyheads.drawing.style import save


@pytest.mark.parametrize(
    ("given", "stem"), [("curve", "curve"), ("curve.png", "curve"), ("curve.pdf", "curve"), ("a.b.c", "a.b.c")]
)
def test_a_picture_keeps_the_name_it_was_given(given: str, stem: str, tmp_path: Path) -> None:
    assert save(Figure(), tmp_path / given) == (tmp_path / f"{stem}.png", tmp_path / f"{stem}.svg")
    assert {path.name for path in tmp_path.iterdir()} == {f"{stem}.png", f"{stem}.svg"}


@pytest.mark.parametrize("folder", ["/proc", "/nonexistent"])
def test_a_picture_that_cannot_be_written_is_one_sentence(folder: str) -> None:
    with pytest.raises(InputError, match=r"h\.png cannot be written"):
        save(Figure(), Path(folder) / "h")


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, old = Figure(), tmp_path / "curve.png"
    old.write_text("old")
    whole = figure.savefig

    def drawn(file: Any, **options: Any) -> None:
        whole(file, **options)
        raise KeyboardInterrupt  # the PNG is drawn, and no more

    monkeypatch.setattr(figure, "savefig", drawn)
    with pytest.raises(KeyboardInterrupt):
        save(figure, tmp_path / "curve")
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]
