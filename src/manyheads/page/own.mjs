// The reader's own files: an edge list to train on, rows for it, a layer to look into. Their content is only data.
import { shownText } from "./hash.mjs";
import { showLayer, showNames, sendView } from "./prove.mjs";
import { setButtons, showControls } from "./play.mjs";
import { anew, at, bytesOf, counted, on, send, state } from "./view.mjs";

const MOST_ITEMS = 2000; // of a layer
const MOST_OWN = 500; // of an edge list to train on
let opened = null; // the layer of a file, which may wait for its rows
const parts = { graph: null, rows: null }; // the last edge list and the last rows
let told = []; // sentences about the files
let read = 0; // files that were read

const tell = (sentence) => {
  told.push(sentence);
  at("own-status").textContent = told.join(" ");
};

function receive(message) {
  if (["graph", "rows", "layer"].includes(message.what)) read++;
  if (message.what === "wrong") tell(message.message);
  else if (message.what === "graph") parts.graph = message.graph;
  else if (message.what === "rows") parts.rows = message.rows;
  else if (message.what === "layer") opened = message;
  else if (message.what === "end" && read) use();
}

/** Use the files that have been read: look into a layer, else train on an edge list. */
function use() {
  if (!opened) return usePlay();
  const { layer, name } = opened;
  const rows = parts.rows ?? opened.rows;
  const graph = parts.graph ?? opened.graph ?? null;
  if (!rows) return tell(`${name} has no rows: drop its embedding too, a table of rows of ${layer.d_model} numbers (.npy or .safetensors).`);
  if (rows.d_model !== layer.d_model) return tell(`The layer of ${name} reads rows of ${layer.d_model} numbers but ${rows.name} has rows of ${rows.d_model}.`);
  if (rows.items > MOST_ITEMS) return tell(`${rows.name} has ${rows.items.toLocaleString("en")} rows: the page takes up to ${MOST_ITEMS}.`);
  if (graph && graph.items !== rows.items) return tell(`${graph.name} has ${graph.items} items but ${rows.name} has ${rows.items} rows.`);
  const labels = graph?.labels ?? opened.labels;
  if (labels && labels.length !== rows.items) return tell(`${name} names ${labels.length} items but ${rows.name} has ${rows.items} rows.`);
  anew({
    items: rows.items, relations: graph?.relations ?? 0, labels, known: Boolean(graph), record: opened.record,
    origin: `The layer is of ${name}, its rows of ${rows.name}${graph ? `, its graph of ${graph.name}` : ""}.`,
    provenance: { origin: "opened in the page" }, ended: true,
  });
  tell(`${name}: ${counted(layer.heads, "head")} of width ${layer.key_width} over ${counted(rows.items, "item")}. See it below.`);
  at("verdict").textContent = "All pairs are being checked.";
  sendView();
  send({ kind: "open", number: state.number, layer, rows, graph, labels });
}

/** Train on the edge list from now on. */
function usePlay() {
  const { graph, rows } = parts;
  if (!graph) {
    if (rows) tell(`${rows.name}: ${counted(rows.items, "row")} of ${rows.d_model} numbers. Drop an edge list or a layer for them.`);
    return;
  }
  if (graph.items > MOST_OWN) return tell(`${graph.name} has ${graph.items} items: the page trains up to ${MOST_OWN}, the package more.`);
  const used = rows && rows.items === graph.items ? rows : null;
  if (rows && !used) tell(`${rows.name} has ${rows.items} rows but ${graph.name} has ${graph.items} items: its items have random rows.`);
  state.own = { graph, rows: used };
  at("context").max = Math.min(64, graph.items);
  send({ kind: "own", ...state.own });
  tell(`${graph.name}: ${counted(graph.items, "item")}, ${counted(graph.relations, "relation")}${graph.heading ? "; its first line is taken for a heading" : ""}. Train, Fit and Sweep are about this graph now.`);
  at("problem").textContent = `The items and relations are those of ${graph.name}. The rows are ${used ? `those of ${rows.name}` : "random numbers"}.`;
  at("forget").disabled = false;
  showControls();
}

/** Back to random permutations. */
function forget() {
  opened = null;
  Object.assign(parts, { graph: null, rows: null });
  state.own = { graph: null, rows: null };
  at("context").max = 64;
  send({ kind: "own", ...state.own });
  told = [];
  tell("Train, Fit and Sweep are about random permutations again.");
  at("problem").textContent = at("problem").dataset.drawn;
  at("forget").disabled = true;
  showControls();
}

const isTensors = ({ name }) => /\.safetensors$/i.test(name);

/** Read files: all that are dropped together belong together. */
export function readFiles(files) {
  if (!files.length) return;
  [told, read, opened] = [[], 0, null];
  if (files.length > 1 || isTensors(files[0])) Object.assign(parts, { graph: null, rows: null });
  at("own-status").textContent = "The files are being read.";
  at("forget").disabled = false;
  send({ kind: "files", files: [...files], most: [...files].some(isTensors) ? MOST_ITEMS : MOST_OWN });
}

/** The layer that the page is about, where it is about one: its files are part of the page. */
function readGiven() {
  const given = JSON.parse(at("given").textContent);
  if (!given) return;
  document.body.classList.add("about-layer");
  at("matrix-place").append(at("matrix-figure"));
  const name = shownText(given.name);
  document.title = `manyheads: ${name}`;
  document.querySelector("h1").textContent = name;
  state.proved = given.certificate;
  const files = given.files.map(({ name, content }) => new File([bytesOf(content)], name));
  readFiles(files);
}

export function startOwn() {
  on("file", receive);
  on("opened", ({ seen }) => {
    state.seen = seen;
    showNames();
    showLayer();
    setButtons();
  });
  at("problem").dataset.drawn = at("problem").textContent;
  at("files").addEventListener("change", () => {
    readFiles(at("files").files);
    at("files").value = "";
  });
  at("forget").addEventListener("click", forget);
  const zone = document.body;
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    readFiles(event.dataTransfer.files);
    at("own").scrollIntoView();
  });
  on("ready", readGiven);
}
