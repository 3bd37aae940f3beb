// The sliders: the problem and the layer that they choose, with the advice about them.
import { bitsPerWeight, freedomNeeded, freedomSplit, graphBits, headFreedom, paperKeyBudget, PERMUTATION_SLOPE, RELATION_SLOPE } from "./laws.mjs";
import { runFields, runId, stepLimit } from "./run.mjs";
import { at, counted, list, shown, state } from "./view.mjs";

export const CONTROLS = ["items", "d_model", "heads", "key_heads", "key_width", "context", "seed"];

/** The numbers of the sliders, and the graph and rows of files where the reader has given some. */
export function chosenValues() {
  const values = Object.fromEntries(CONTROLS.map((id) => [id, Number(at(id).value)]));
  const { graph, rows } = state.own;
  if (graph) Object.assign(values, { items: graph.items, graph: `given:${graph.fingerprint}`, permutation: graph.permutation });
  if (graph && rows) Object.assign(values, { d_model: rows.d_model, rows: `given:${rows.fingerprint}` });
  while (values.heads % values.key_heads) values.key_heads--; // the largest number that divides the heads
  values.context = Math.min(values.context, values.items);
  values.rule = at("rule").value;
  return { ...values, relations: graph ? graph.relations : values.items, steps: stepLimit(values.items, values.d_model, values.rule) };
}

/** The graph of the sliders, for counting graphs like it. */
const chosenGraph = (values) => {
  const { items, relations } = values;
  if (!state.own.graph) return { items };
  const { permutation, regular, degree, loops } = state.own.graph;
  return { items, relations, permutation, regular, degree, loops };
};

const splits = new Map();
/** `freedomSplit` with as many heads for each key head as the sliders have, computed once for each size. */
export function splitOf({ items, relations, d_model, heads, key_heads }) {
  const name = `${items} ${relations} ${d_model} ${heads / key_heads}`;
  if (!splits.has(name)) splits.set(name, freedomSplit({ items, relations, d_model, group: heads / key_heads }));
  return splits.get(name);
}

/** The key budget of the paper's law; of shared keys that of as many weights. */
export function paperBudget({ items, relations, d_model, heads, key_heads }) {
  const slope = (state.own.graph?.permutation ?? true) ? PERMUTATION_SLOPE : RELATION_SLOPE;
  return paperKeyBudget({ items, relations, d_model, slope, group: heads / key_heads });
}

/** Heads and their width in words; key heads are named where heads share them. */
function shapeWords({ heads, key_heads, key_width }) {
  const sharing = key_heads === heads ? "" : ` that share ${counted(key_heads, "key head")}`;
  return `${counted(heads, "head")} of width ${key_width}${sharing}`;
}

/** The slider of key heads ends at the number of heads; at its end it stays there: each head has its own keys. */
function limitKeyHeads() {
  const [slider, heads] = [at("key_heads"), at("heads").value];
  const own = slider.value === slider.max;
  slider.max = heads;
  if (own) slider.value = heads;
}

/** A path as a word of the command line. */
const commandWord = (name) => (/^[\w.,:/@-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** The command that trains the same run in the package. */
function command(values) {
  const { graph, rows } = state.own;
  const options = `--heads ${values.heads}${values.key_heads === values.heads ? "" : ` --key-heads ${values.key_heads}`} --key-width ${values.key_width} --seed ${values.seed} --context-length ${values.context}`;
  const words = graph ? commandWord(graph.name) : `permutation:${values.items}`;
  const table = rows && graph ? commandWord(rows.name) : `gaussian:${values.d_model}`;
  return `manyheads train --graph ${words} --embedding ${table} ${options} --rule ${values.rule} --steps ${values.steps}`;
}

/** Show the numbers of the sliders, the advice and the command. */
export function showAdvice() {
  limitKeyHeads();
  const values = chosenValues();
  const { items, relations, d_model, heads, key_heads, key_width } = values;
  const stale = state.fields && runId(state.fields) !== runId(runFields(values));
  at("stale").textContent = stale ? "The controls have changed. The pictures and the proof are of the numbers before: press Train or Fit." : "";
  for (const id of CONTROLS) document.querySelector(`output[for=${id}]`).textContent = values[id];
  at("items").disabled = Boolean(state.own.graph);
  at("d_model").disabled = Boolean(state.own.graph && state.own.rows);
  const needed = freedomNeeded({ items, relations, heads });
  const split = splitOf(values);
  const freedom = headFreedom({ d_model, heads, key_heads, key_width });
  const { family } = graphBits(chosenGraph(values));
  list(at("advice"), [
    ["key budget", `D_K ${key_heads * key_width}: ${shapeWords(values)}`],
    ["degrees of freedom", `a head has ${shown(freedom, 5)} and needs ${shown(needed, 4)}: ${freedom >= needed ? "enough" : "too few"}`],
    ["advice", split ? `${shapeWords(split)}: D_K ${split.key_budget}` : "no number of heads has enough freedom: raise d_model"],
    ["the paper's law", `D_K ${shown(paperBudget(values))}`],
    ["bits per weight", `${shown(bitsPerWeight({ d_model, heads, key_heads, key_width, ...chosenGraph(values) }))} (${family})`],
    ["run", runId(runFields(values))],
  ]);
  at("command").textContent = command(values);
}
