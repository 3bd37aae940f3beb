// What all parts of the page use: elements by their names, numbers as text, the state, and the worker.
import { shownText } from "./hash.mjs";
import { element } from "./pictures.mjs";

export const GOAL = 0.99;
export const at = (id) => document.getElementById(id);
export const shown = (number, digits = 3) => (Number.isFinite(number) ? Number(number.toPrecision(digits)).toString() : "none");
export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Fill a list of names and texts. */
export function list(place, rows) {
  place.replaceChildren(...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
}

/** A table; a row is a list of texts or elements, the first of which names the row. */
export function table(caption, headings, rows) {
  const cell = (content, n) => (n === 0 ? element("th", { scope: "row" }, content) : element("td", {}, content));
  const head = headings.length ? [element("thead", {}, element("tr", {}, ...headings.map((name) => element("th", { scope: "col" }, name))))] : [];
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell))));
  return element("table", {}, element("caption", {}, caption), ...head, body);
}

export const state = {
  number: 0, // of the run, fit or file that the current layer is of
  fields: null, // of the run
  items: 0, // of the current layer
  labels: null,
  known: true, // whether the relations of the current layer are known
  origin: "", // of the current layer, in words
  provenance: {},
  record: null, // what the layer's file says of its certificate
  seen: null, // layer, certificate, holders and hardest pairs
  attempt: null, // of a fit
  curve: [], last: null, chosen: null, running: false, ended: false, fitting: false, ready: false,
  runs: new Map(), // runs of each problem by the name of the problem
  own: { graph: null, rows: null }, // of the reader's files
};

/** The name of an item of the current layer. */
export const itemName = (item) => (state.labels ? state.labels[item] : String(item));

const handlers = {};
/** Call `handler` for every message of this kind about the current run, fit or file. */
export function on(kind, handler) {
  (handlers[kind] ??= []).push(handler);
}

let engineBytes = null;
/** A worker with the engine in it, and a function that receives its messages. */
export function openWorker(receive) {
  const text = at("worker").textContent;
  const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  worker.onmessage = (event) => receive(event.data);
  engineBytes ??= bytesOf(at("engine").textContent.trim());
  worker.postMessage({ kind: "load", bytes: engineBytes });
  return worker;
}

/** The bytes of a base64 text. */
export function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
  return bytes;
}

let main = null;
/** Start the worker of the page. */
export function startWorker() {
  main = openWorker((message) => {
    if (message.number !== undefined && message.number !== state.number) return;
    for (const handler of handlers[message.kind] ?? []) handler(message);
  });
}

/** Send a message to the worker of the page. */
export const send = (message) => main.postMessage(message);

/** Forget the current layer, and begin something that has a new number. Names of items are shown, not obeyed. */
export function anew({ labels = null, ...changes }) {
  Object.assign(state, {
    number: state.number + 1, curve: [], last: null, seen: null, chosen: null, ended: false, running: false, fitting: false,
    known: true, record: null, labels: labels?.map(shownText) ?? null, fields: null, attempt: null, ...changes,
  });
}
