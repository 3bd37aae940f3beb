"""The page: one HTML file for a browser, with the C++ engine in it as WebAssembly.

`explore_page` and `layer_page` put it together. In the browser, `worker.mjs` and the modules that it imports run in a
worker: the engine, fits, files, proofs. `app.mjs` and the modules that it imports draw. `make page` compiles
`engine.wasm` from native/ and writes `paper.json.gz`, the published rows in short.
"""

from manyheads.page.document import explore_page, layer_page

__all__ = ["explore_page", "layer_page"]
