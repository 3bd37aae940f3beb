"""The page: one HTML file for a browser, with the C++ engine in it as WebAssembly.

`explore_page` puts it together. `engine.mjs` and `worker.mjs` run in a worker of the browser. `app.mjs` has the
controls; `laws.mjs`, `run.mjs` and `sweep.mjs` compute; `pictures.mjs` draws. `make page` compiles `engine.wasm` from
native/.
"""

from manyheads.page.document import explore_page

__all__ = ["explore_page"]
