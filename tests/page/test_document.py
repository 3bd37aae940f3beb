"""The page as a file: whole, small, without requests, readable in both themes. How it works is in browser_checks.py."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from manyheads import Embedding, Layer, gaussian, permutation_graph
from manyheads.cli import main
from manyheads.errors import InputError
from manyheads.page import explore_page, layer_page
from manyheads.page.document import PAGE_MODULES, WORKER_MODULES, joined_modules

ROOM = Path(str(files("manyheads.page")))


def test_the_page_is_one_small_file_without_requests() -> None:
    page = explore_page()
    assert len(page.encode()) < 1_500_000
    assert "{{" not in page.replace("{{}}", "")
    text = page.replace((ROOM / "page.css").read_text(), "")
    links = [link for link in re.findall(r'(?:src|href)="([^"]*)"', text) if not link.startswith(("#", "data:"))]
    assert not links
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name of a language, not an address that is asked
    assert page.count("<script") == page.count("</script>") == 5


@pytest.mark.parametrize("names", [PAGE_MODULES, WORKER_MODULES])
def test_modules_become_one_script(names: tuple[str, ...], tmp_path: Path) -> None:
    script = joined_modules(names)
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    declared = re.findall(r"^(?:const|let|class|function|async function) (\w+)", script, re.MULTILINE)
    assert len(declared) == len(set(declared)), "two modules of one script declare the same name"
    if (node := shutil.which("node")) is None:
        pytest.skip("node, which reads the script, is not installed")
    path = tmp_path / "script.js"
    path.write_text(script)
    told = subprocess.run([node, "--check", str(path)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_every_module_is_in_the_page() -> None:
    assert {path.name for path in ROOM.glob("*.mjs")} == {*PAGE_MODULES, *WORKER_MODULES}
    for name in (*PAGE_MODULES, *WORKER_MODULES):
        order = PAGE_MODULES if name in PAGE_MODULES else WORKER_MODULES
        for imported in re.findall(r'from "\./([a-z]+\.mjs)"', (ROOM / name).read_text()):
            assert order.index(imported) < order.index(name)


def test_every_control_has_a_label() -> None:
    html = (ROOM / "page.html").read_text()
    labelled = set(re.findall(r'<label for="(\w+)"', html))
    for control in re.findall(r"<(?:input|select)[^>]*>", html):
        name = re.search(r'id="([\w-]+)"', control)
        assert name is not None
        assert name[1] in labelled or f"<label>{control}" in html


def brightness(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_the_contrast_of_wcag_aa_in_both_themes() -> None:
    themes = re.findall(r":root \{([^}]*)\}", (ROOM / "page.css").read_text())
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", theme))
        texts = [(name, "--back") for name in colours if name in ("--text", "--quiet", "--accent") or "series" in name]
        texts += [("--text", "--panel"), ("--quiet", "--panel"), ("--on-accent", "--accent")]
        marks = [(name, "--matrix") for name in ("--right", "--missed", "--false")]
        for (name, under), least in [(pair, 4.5) for pair in texts] + [(pair, 3.0) for pair in marks]:
            dark, light = sorted((brightness(colours[name]), brightness(colours[under])))
            assert (light + 0.05) / (dark + 0.05) >= least, (name, under)


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.html"
    assert main(["explore", "-o", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == explore_page()
    assert main(["explore", "-o", str(path)]) == 2
    assert main(["explore", "-o", str(tmp_path / "page.txt")]) == 2
    assert "must end in .html" in capsys.readouterr().err


def layer_and_rows(items: int = 6) -> tuple[Layer, Embedding]:
    rows = gaussian(items, 4, seed=0)
    return Layer(np.ones((2, 4, 3)), np.ones((1, 4, 3)), 0.5), Embedding(
        rows, tuple(f"n{n}</script>" for n in range(items))
    )


def test_a_page_about_a_layer_has_its_files_and_no_markup_of_its_names() -> None:
    layer, rows = layer_and_rows()
    graph = permutation_graph(6, seed=0).with_labels(rows.names or ())
    page = layer_page(layer, rows, graph=graph, name="</script><b>.safetensors")
    assert page.count("</script>") == 5
    given = json.loads(re.search(r'id="given">(.*?)</script>', page)[1])  # type: ignore[index]
    assert [file["name"] for file in given["files"]] == ["</script><b>.safetensors", "graph.csv"]
    assert given["certificate"].startswith("refuted: ")
    assert len(page) < 600_000  # without the paper's rows


def test_a_page_about_a_layer_refuses_what_it_cannot_show() -> None:
    layer, _ = layer_and_rows()
    with pytest.raises(InputError, match="up to 2,000 items, not 2,001"):
        layer_page(layer, layer_and_rows(2001)[1])
    with pytest.raises(InputError, match="rows of 4 numbers but the embedding has 5"):
        layer_page(layer, Embedding(gaussian(6, 5, seed=0)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--embedding", "r.npy"], "it is about a layer: give LAYER"),
        (["--context-length", "8"], "it is about a layer: give LAYER"),
        (["layer.safetensors"], "needs the rows of its items: give --embedding"),
    ],
)
def test_the_command_refuses_options_that_do_not_go_together(
    options: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_the_command_opens_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def show(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", show)
    path = tmp_path / "page.html"
    assert main(["explore", "-o", str(path), "--open"]) == 0
    assert opened == [path.as_uri()]
