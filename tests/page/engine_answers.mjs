// Answers the questions on standard input, one JSON list, by the modules of the page; a test compares them with the package.
import { readFileSync } from "node:fs";
import { Engine } from "../../src/manyheads/page/engine.mjs";
import * as laws from "../../src/manyheads/page/laws.mjs";
import { sha256 } from "../../src/manyheads/page/hash.mjs";
import { runFields, runId, stepLimit } from "../../src/manyheads/page/run.mjs";

const engine = await Engine.load(readFileSync(new URL("../../src/manyheads/page/engine.wasm", import.meta.url)));
const plain = (layer) => ({ query: [...layer.query], key: [...layer.key], threshold: layer.threshold });
const answers = {
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
    freedom: laws.headFreedom({ d_model, key_width }),
    width: laws.freedomKeyWidth({ items, relations: items, d_model, heads }),
    split: laws.freedomSplit({ items, relations: items, d_model, most: 64 }),
    paper: laws.paperKeyBudget({ items, relations: items, d_model }),
    bits: laws.bitsPerWeight({ items, d_model, heads, key_width }),
  }),
};
const questions = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(questions.map(([name, argument]) => answers[name](argument))));
