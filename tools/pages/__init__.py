"""The result pages: rows in docs/data, one package for each page, Markdown and pictures in docs.

A page `name` is the package `tools.pages.<name>` (hyphens as underscores). It has

- TABLES: the names of its tables of rows, docs/data/<table>.csv;
- PARTS: the parts that can be measured by themselves;
- `measure(settings)`: makes the rows that are missing and stores them; may take minutes to hours;
- `page(tables)`: the text of docs/results/<name>.md, from the rows only;
- `figures(tables)`: the pictures of docs/figures by their names, from the rows only.

The prose is in `page.md` beside the code; `{{fact}}` stands for a number or a table that `page` computes.

    python -m tools.pages                              every page and picture from the stored rows
    python -m tools.pages fit incoherence              only these
    python -m tools.pages constructions --measure      first make the rows that are missing
"""
