// The certificate of the current layer: its verdict, the matrix of all pairs, one pair, the hardest pairs, and what attends to what.
import { element } from "./pictures.mjs";
import { at, counted, itemName, list, on, send, shown, state, table } from "./view.mjs";

const MOST_SHOWN = 40; // pairs in a table

/** The colours of the matrix, as the style of the page has them. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const parts = (name) => [1, 3, 5].map((n) => parseInt(style.getPropertyValue(name).trim().slice(n, n + 2), 16));
  const [ground, shade, right, missed, wrong, text] = ["--matrix", "--shade", "--right", "--missed", "--false", "--text"].map(parts);
  return { ground, shade, right, missed, false: wrong, text, heads: [0, 1, 2, 3, 4, 5].map((n) => parts(`--series-${n}`)) };
}

/** Tell the worker how the matrix looks; it paints it again. */
export function sendView() {
  send({ kind: "view", view: { palette: palette(), byHead: at("by-head").checked, chosen: state.chosen } });
}

function showPicture({ items, width, data }) {
  const canvas = at("matrix");
  if (canvas.width !== width) canvas.width = canvas.height = width;
  canvas.getContext("2d").putImageData(new ImageData(data, width, width), 0, 0);
  const { certificate } = state.seen ?? {};
  const wrong = certificate ? `: ${certificate.missed} relations missed, ${certificate.false_pairs} other pairs taken for relations` : "";
  canvas.setAttribute("aria-label", `All ${items ** 2} pairs${wrong}`);
}

/** No picture: there is no layer yet, or its scores depend on the context. */
function clearPicture() {
  at("matrix").width = at("matrix").height; // a canvas that gets a size is empty
  at("matrix").setAttribute("aria-label", "All pairs of items: no picture");
}

const REASONS = {
  holds: () => "it recognises every relation, and nothing else, in every context",
  refuted: ({ missed, false_pairs: falsePairs }, relations) =>
    `it misses ${missed} of ${relations} relations and takes ${falsePairs} of ${state.items ** 2 - relations} other pairs for relations`,
  "not proved": () => "a score is so near to the threshold that rounding decides",
};

/** What the layer's file says of its certificate. */
function recordWords() {
  const told = state.record?.certificate;
  if (!told) return "The file has no certificate.";
  const lengths = Array.isArray(told.context_lengths) ? `every context of length ${told.context_lengths.join(" to ")}` : "every context of every length";
  return `The file says: ${String(told.verdict)}, ${Number(told.relations)} relations of ${Number(told.items)} items in ${lengths}. This is a statement of the file, and no proof.`;
}

/** Show the verdict on the current layer, and everything about it. */
export function showLayer() {
  const { seen } = state;
  const { certificate } = seen ?? {};
  for (const id of ["look", "download", "ask"]) at(id).disabled = !seen;
  at("witness").disabled = !certificate?.witness;
  at("origin").textContent = seen ? state.origin : "";
  for (const id of ["certificate", "holders", "hardest", "pair-answer", "attention"]) if (!seen) at(id).replaceChildren();
  if (!seen?.blind) clearPicture();
  showMatrixNote();
  if (!seen) {
    at("verdict").textContent = "No layer yet.";
    return;
  }
  const { layer } = seen;
  const sharing = layer.key_heads === layer.heads ? "" : ` that share ${counted(layer.key_heads, "key head")}`;
  const shape = ["layer", `rule ${layer.rule}, ${counted(layer.heads, "head")} of width ${layer.key_width}${sharing}, d_model ${layer.d_model}`];
  if (certificate) {
    at("verdict").replaceChildren(element("strong", {}, certificate.verdict), `: ${REASONS[certificate.verdict](certificate, state.relations)}.`);
    const { witness } = certificate;
    list(at("certificate"), [
      shape,
      ["contexts", "every context of every length"],
      ["threshold", `${shown(certificate.threshold, 6)}, window ${certificate.window.map((end) => shown(end, 6)).join(" … ")}`],
      ["margin", shown(certificate.margin)],
      ["rounding", `at most ${shown(certificate.rounding, 2)}`],
      ["pairs", `${certificate.missed} missed, ${certificate.false_pairs} false, ${certificate.open_pairs} open of ${state.items ** 2}`],
      ["wrong pair", witness ? `${itemName(witness.source)} → ${itemName(witness.target)}` : "none"],
    ]);
  } else {
    const package_ = state.proved ? [["the package", state.proved]] : [];
    at("verdict").textContent = seen.blind
      ? `No graph is given, so there is nothing to prove. ${state.record ? recordWords() : ""}`
      : `Under softmax a score depends on the context. The package proves such layers: manyheads certify --context-length. ${state.record ? recordWords() : ""}`;
    list(at("certificate"), [shape, ["threshold", shown(layer.threshold, 6)], ...package_]);
  }
  showHolders();
  showHardest();
}

/** How many relations each head holds: those that are found and for which it has the largest score. */
function showHolders() {
  const { holders } = state.seen;
  if (!holders) return at("holders").replaceChildren();
  const rows = holders.map((count, head) => [element("span", { class: `colour-${head % 6}` }, `■ head ${head}`), String(count)]);
  at("holders").replaceChildren(table(state.known ? "Relations that each head holds" : "Pairs that each head recognises", [], rows));
}

/** Below the matrix: which colours heads have, or why there is no picture. */
function showMatrixNote() {
  if (state.seen && !state.seen.blind) {
    at("matrix-note").textContent = " Under softmax a score depends on the context, so there is no picture of all pairs.";
    return;
  }
  const heads = at("by-head").checked ? (state.seen?.holders?.length ?? 0) : 0;
  const samples = Array.from({ length: Math.min(6, heads) }, (_, head) => element("span", { class: `colour-${head}` }, ` ■ head ${head}`));
  const again = heads > 6 ? "; head 6 has the colour of head 0 again, and so on" : "";
  at("matrix-note").replaceChildren(...(heads ? [" Colours of relations found:", ...samples, `${again}.`] : []));
}

function showHardest() {
  const { hardest } = state.seen;
  if (!hardest) return at("hardest").replaceChildren();
  const rows = hardest.map(({ source, target, related, margin, head }) => {
    const button = element("button", { type: "button", class: "plain" }, `${itemName(source)} → ${itemName(target)}`);
    button.addEventListener("click", () => choosePair(source, target));
    return [button, related ? "relation" : "no relation", shown(margin, 4), margin > 0 ? "right" : "wrong", String(head)];
  });
  at("hardest").replaceChildren(table("The hardest pairs: the least margins", ["pair", "kind", "margin", "answer", "head"], rows));
}

function showPair({ source, target, scores, related }) {
  const { layer, blind } = state.seen;
  const score = Math.max(...scores);
  const found = score > layer.threshold;
  const kind = related === null ? "has no known relation" : related ? "is a relation" : "is no relation";
  const margin = related === false ? layer.threshold - score : score - layer.threshold;
  const judged = related === null ? "" : `: ${related === found ? "right" : "wrong"}`;
  const told = `${itemName(source)} → ${itemName(target)} ${kind}, and the layer ${found ? "recognises it" : "does not recognise it"}${judged}. Margin ${shown(margin, 4)}.`;
  const words = layer.rule === "max" ? told : `${itemName(source)} → ${itemName(target)}: the scores of the heads${blind ? "" : ", before softmax over a context"}.`;
  const rows = scores.map((one, head) => [`head ${head}`, shown(one, 5), one === score ? (layer.rule === "max" ? "wins" : "largest") : ""]);
  at("pair-answer").replaceChildren(element("p", {}, words), table(`Scores; the threshold is ${shown(layer.threshold, 5)}`, [], rows));
}

/** The item of a name or a number, or a sentence that there is none. */
export function itemOf(word) {
  const text = String(word).trim();
  const marks = ["", "Ġ", "▁"]; // as tokenisers mark the beginning of a word
  const named = state.labels ? marks.map((mark) => state.labels.indexOf(mark + text)).find((item) => item >= 0) : undefined;
  if (named !== undefined) return named;
  if (/^[0-9]{1,6}$/.test(text) && Number(text) < state.items) return Number(text);
  const near = state.labels?.find((label) => label.toLowerCase().startsWith(text.toLowerCase().slice(0, 3)));
  const hint = text && near ? `: did you mean ${near}?` : state.labels ? "." : `: an item is a whole number from 0 to ${state.items - 1}.`;
  throw new Error(`There is no item ${JSON.stringify(text)}${hint}`);
}

export function choosePair(source, target) {
  if (!state.seen) return;
  state.chosen = { source, target };
  at("source").value = itemName(source);
  at("target").value = itemName(target);
  send({ kind: "pair", source, target });
  sendView();
}

function showAttention({ items, pairs }) {
  const names = items.map(itemName);
  const among = items.length > 1 ? `the context ${names.join(" ")}` : `all ${counted(state.items, "item")}, for ${names[0]}`;
  if (!pairs.length) return (at("attention").textContent = `Nothing attends to anything among ${among}.`);
  const rows = pairs.slice(0, MOST_SHOWN).map(({ source, target, score, margin, head }) => [itemName(source), itemName(target), shown(score, 4), shown(margin, 3), String(head)]);
  const more = pairs.length > MOST_SHOWN ? [element("p", {}, `… and ${pairs.length - MOST_SHOWN} more.`)] : [];
  at("attention").replaceChildren(table(`Attention among ${among}`, ["word", "attends to", "score", "margin", "head"], rows), ...more);
}

/** Fill the list of names that the fields for words offer. */
export function showNames() {
  at("names").replaceChildren(...(state.labels ?? []).map((label) => element("option", { value: label })));
}

export function startProve() {
  on("picture", showPicture);
  on("pair", showPair);
  on("attention", showAttention);
  on("packed", ({ bytes }) => {
    const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = element("a", { href: address, download: "layer.safetensors" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  });
  at("by-head").addEventListener("change", () => {
    sendView();
    showMatrixNote();
  });
  at("pair").addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      choosePair(itemOf(at("source").value), itemOf(at("target").value));
    } catch (error) {
      at("pair-answer").textContent = error.message;
    }
  });
  at("witness").addEventListener("click", () => choosePair(state.seen.certificate.witness.source, state.seen.certificate.witness.target));
  at("matrix").addEventListener("click", (event) => {
    const box = at("matrix").getBoundingClientRect();
    const item = (part, whole) => Math.min(state.items - 1, Math.max(0, Math.floor((part / whole) * state.items)));
    if (state.seen?.holders) choosePair(item(event.clientY - box.top, box.height), item(event.clientX - box.left, box.width));
  });
  at("words-form").addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      const words = at("words").value;
      const whole = state.labels?.includes(words.trim()) ? [words] : words.split(/[\s,]+/).filter(Boolean);
      const items = [...new Set((whole.length ? whole : [""]).map(itemOf))];
      if (items.length < 2 && !state.seen.blind) throw new Error("Under softmax the attention of an item depends on the context: give all its items.");
      send({ kind: "attend", items });
    } catch (error) {
      at("attention").textContent = error.message;
    }
  });
  at("download").addEventListener("click", () => send({ kind: "pack", provenance: state.provenance, software: document.body.dataset.software }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sendView);
}
