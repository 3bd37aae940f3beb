"""The settings of the documentation site: `make docs` builds it into docs/_build/html.

The pages are plain Markdown that reads well on a code host. Two things that only Sphinx understands are added here
when a page is read: the table of contents, from the links of an index page, and the entries of the API, from the tables
of names in docs/reference/api. The source directory is the root of the repository, so README.md is a page too.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from posixpath import dirname, join, normpath

from sphinx.application import Sphinx

project = "manyheads"
author = "The manyheads authors"
copyright = author
version = release = installed_version("manyheads")

root_doc = "docs/index"
include_patterns = [f"{name}.md" for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
include_patterns += ["docs/**.md"]
exclude_patterns = [".*", "build", "dist", "demo-output", "docs/_build"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "notebooks")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True

napoleon_numpy_docstring = False
default_role = "code"  # a docstring writes `code` as Markdown does
napoleon_use_ivar = True
napoleon_attr_annotations = False  # the signature has them
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# Every public name has an entry. Types of other packages, types that only a type checker imports, the axes of an array,
# and types inside a room have none.
nitpick_ignore_regex = [
    ("py:class", r"(collections|concurrent|jaxtyping|matplotlib|numpy|pathlib|sqlite3|torch|types)\..+"),
    ("py:class", r"\w+|'.+'"),
    ("py:(class|exc)", r"manyheads(\.\w+){3,}|manyheads\.tables\.Summary|StoreError"),
]

smartquotes = False  # they turn --json into a dash and a word

html_theme = "furo"
html_title = f"manyheads {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
NAME = re.compile(r"^\| \[?`(\w+)`(?:\]\([^)]*\))? \|", re.MULTILINE)
SEVERAL = re.compile(r"^ {4}\w+(?:, \w+)+(?=: )")  # one entry of a docstring for several arguments
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)\.md\)")


def contents(page: str, text: str) -> str:
    """Hidden tables of contents for an index page: one for each section, with the pages that the section links to.

    Args:
        page: The name of the page, e.g. "docs/index".
        text: Its Markdown.

    Returns:
        The directives, in Markdown; empty if the page links to no page that has its only entry here.
    """
    below = f"{dirname(page)}/"
    pieces, seen = HEADING.split(text), {page}
    tables: list[str] = []
    sections = list(zip(["", *pieces[1::2]], pieces[::2], strict=True))
    for heading, section in [*sections[1:], sections[0]]:  # a page that the first lines name too belongs to its section
        entries = []
        for title, target in LINK.findall(section):
            name = normpath(join(dirname(page), target))
            if name not in seen and (page == root_doc or name.startswith(below)):
                seen.add(name)
                entries.append(f"{title.replace('`', '')} </{name}>")
        if entries:
            caption = [f":caption: {heading.partition(':')[0]}"] if page == root_doc and heading else []
            table = "\n".join(["```{toctree}", ":hidden:", *caption, "", *entries, "```", ""])
            tables.insert(len(tables) if heading else 0, table)
    return "\n".join(tables)


def with_entries(text: str, *, has_entries: bool) -> str:
    """A page of public names with links to their entries and, for a room, with the entries below each table.

    Args:
        text: The Markdown of the page.
        has_entries: Whether the entries are on this page.

    Returns:
        The Markdown for Sphinx.
    """
    pieces = re.split(r"^(## Names of `([\w.]+)`)$", text, flags=re.MULTILINE)
    parts = [pieces[0]]
    for heading, owner, section in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        names = [f"{owner}.{name}" for name in NAME.findall(section)]
        parts += [heading, NAME.sub(rf"| {{py:obj}}`\1 <{owner}.\1>` |", section)]
        parts += [f"\n```{{eval-rst}}\n{entry(name)}\n```\n" for name in names if has_entries]
    return "".join(parts)


def entry(name: str) -> str:
    """The directive that shows a public name with its docstring."""
    value = inspect.unwrap(getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]))
    if inspect.isclass(value):
        return f".. autoclass:: {name}\n   :members:"
    if inspect.isfunction(value):
        return f".. autofunction:: {name}"
    return f".. py:data:: {name}"


def as_restructured_text(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Change a docstring in Markdown into what napoleon expects."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            words = line.split("`")
            words[::2] = [re.sub(r"([*|])", r"\\\1", word) for word in words[::2]]
            lines[number] = SEVERAL.sub(lambda names: names[0].replace(", ", ","), "`".join(words))
        # napoleon reads words before a colon as a type: an empty type keeps them in the sentence
        if (number and lines[number - 1].strip() in ("Returns:", "Yields:")) or (not number and what == "property"):
            lines[number] = re.sub(r"^(\s*)(?=.*:)", r"\1: ", lines[number])


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page's Markdown what only Sphinx understands."""
    if page.startswith("docs/reference/api/"):
        source[0] = with_entries(source[0], has_entries=not page.endswith("/index"))
    if page.endswith("/index") and "{toctree}" not in source[0]:
        source[0] += "\n" + contents(page, source[0])


def redirect(app: Sphinx, error: Exception | None) -> None:
    """Write index.html at the root of the site."""
    target = f"{root_doc}.html"
    refresh = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
    page = f'<!doctype html>{refresh}<a href="{target}">manyheads</a>\n'
    Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon, which has 500
    app.connect("source-read", complete)
    app.connect("build-finished", redirect)
