// Answers the questions on standard input, one JSON list, by the modules of the page; a test compares them with the package.
import { readFileSync } from "node:fs";
import { Engine } from "../../src/manyheads/page/engine.mjs";
import { FileError, readGraph } from "../../src/manyheads/page/graphs.mjs";
import { fitLayer } from "../../src/manyheads/page/fit.mjs";
import * as laws from "../../src/manyheads/page/laws.mjs";
import { sha256, shownText } from "../../src/manyheads/page/hash.mjs";
import { runFields, runId, stepLimit } from "../../src/manyheads/page/run.mjs";
import { packLayer, readEmbedding, readLayer, readNpy, readTensors } from "../../src/manyheads/page/tensors.mjs";
import { anew, state } from "../../src/manyheads/page/view.mjs";
import { serve } from "../../src/manyheads/page/worker.mjs";

const engine = await Engine.load(readFileSync(new URL("../../src/manyheads/page/engine.wasm", import.meta.url)));
const plain = (layer) => ({ query: [...layer.query], key: [...layer.key], threshold: layer.threshold });
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
/** The value of `read`, or the sentence with which a file is refused; any other error ends the program. */
function refusal(read) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return { refused: error.message };
  }
}
/** The largest divisor of a number that is smaller than it, or 1. */
const shared = (heads) => Array.from({ length: Math.max(1, heads >> 1) }, (_, n) => n + 1).findLast((count) => heads % count === 0);
const answers = {
  graph: ({ name, content, most }) => refusal(() => {
    const { starts, targets, ...graph } = readGraph(bytes(content), name, most);
    return { ...graph, starts: [...starts], targets: [...targets] };
  }),
  file: ({ name, content }) => refusal(() => {
    if (name.endsWith(".npy")) return { rows: [...readNpy(bytes(content), name).rows] };
    const file = readTensors(bytes(content), name);
    if (file.metadata.format !== "manyheads layer") return { rows: [...readEmbedding(file).rows] };
    const { layer, labels, record, rows } = readLayer(file);
    return { ...layer, ...plain(layer), labels, record, rows: rows && [...rows.rows] };
  }),
  pack({ content, labels, graph }) {
    const { layer, rows } = readLayer(readTensors(bytes(content), "layer"));
    const { starts, targets } = graph;
    const problem = { items: rows.items, d_model: rows.d_model, rows: rows.rows, labels, fingerprint: graph.fingerprint, starts: Int32Array.from(starts), targets: Int32Array.from(targets) };
    const certificate = engine.certify(layer, problem);
    return Buffer.from(packLayer({ layer, problem, certificate, provenance: { seed: 3 }, software: "a test" })).toString("base64");
  },
  async fit({ run, seed }) {
    const told = [];
    const problem = engine.drawProblem(runFields(run));
    const { layer, certificate, attempts, steps } = await fitLayer(engine, run, problem, { seed, tell: ({ step, wrong }) => told.push([step, wrong]) });
    return { ...plain(layer), verdict: certificate.verdict, margin: certificate.margin, attempts, steps, told };
  },
  fields: (run) => ({ fields: runFields(run), id: runId(runFields(run)) }),
  steps: ({ items, d_model, rule }) => stepLimit(items, d_model, rule),
  hash: (text) => sha256(new TextEncoder().encode(text)),
  problem(run) {
    const { targets, rows } = engine.drawProblem(runFields(run));
    const { query, key } = engine.firstWeights(runFields(run));
    return { targets: [...targets], rows: [...rows], query: [...query], key: [...key] };
  },
  advance(run) {
    engine.begin(runFields(run), engine.drawProblem(runFields(run)));
    const losses = [...engine.advance(run.advance)];
    return { losses, ...plain(engine.layer()) };
  },
  train(run) {
    const problem = engine.drawProblem(runFields(run));
    engine.begin(runFields(run), problem);
    const curve = [];
    let check;
    while ((check = engine.train()).stopped === "running") curve.push(check.score);
    const { missed, false_pairs: falsePairs } = engine.certify(engine.layer(), problem);
    return { ...check, curve, exact_errors: missed + falsePairs };
  },
  certify({ run, query, key, threshold }) {
    const problem = engine.drawProblem(runFields(run));
    const layer = { ...run, query: Float64Array.from(query), key: Float64Array.from(key), threshold };
    const { scores, winners, ...certificate } = engine.certify(layer, problem);
    const { heads } = run;
    return { ...certificate, scores: [...scores], winners: [...winners], first: Array.from({ length: heads }, (_, head) => engine.scoreRow(head, 0, run.items)[1]) };
  },
  laws: ({ items, d_model, heads, key_width }) => ({
    needed: laws.freedomNeeded({ items, relations: items, heads }),
    freedom: laws.headFreedom({ d_model, heads, key_width }),
    width: laws.freedomKeyWidth({ items, relations: items, d_model, heads }),
    shared_freedom: laws.headFreedom({ d_model, heads, key_heads: shared(heads), key_width }),
    shared_width: laws.freedomKeyWidth({ items, relations: items, d_model, heads, key_heads: shared(heads) }),
    split: laws.freedomSplit({ items, relations: items, d_model, most: 64 }),
    shared_split: laws.freedomSplit({ items, relations: items, d_model, group: heads / shared(heads), most: 16 }),
    paper: laws.paperKeyBudget({ items, relations: items, d_model }),
    shared_paper: laws.paperKeyBudget({ items, relations: items, d_model, group: heads / shared(heads) }),
    bits: laws.bitsPerWeight({ items, d_model, heads, key_width }),
  }),
  bits: (graph) => laws.graphBits(graph).bits,
  shown: shownText,
  names(labels) {
    anew({ labels });
    return state.labels;
  },
  /** What the worker says of dropped files: for each its kind, and the sentence where it is wrong. */
  async dropped({ name, content }) {
    const told = [];
    const answer = serve((message) => told.push(message), () => Promise.resolve());
    await answer({ kind: "load", bytes: readFileSync(new URL("../../src/manyheads/page/engine.wasm", import.meta.url)) });
    await answer({ kind: "files", files: [new File([bytes(content)], name)], most: 2000 });
    const [found] = told.filter(({ kind }) => kind === "file");
    return { what: found.what, message: found.message ?? "", name: found.name ?? found.graph?.name ?? found.rows?.name ?? "" };
  },
};
const questions = JSON.parse(readFileSync(0, "utf8"));
const found = [];
for (const [name, argument] of questions) found.push(await answers[name](argument));
process.stdout.write(JSON.stringify(found));
