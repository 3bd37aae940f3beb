// A run of the package: its fields with every default resolved, and its id.
import { sha256 } from "./hash.mjs";

export const PROTOCOL = {
  sharpness: 10, learning_rate: 1e-3, weight_decay: 0, beta1: 0.9, beta2: 0.999, epsilon: 1e-8,
  initial_threshold: 0, validate_every: 500, validation_contexts: 500, test_contexts: 2000, stop_above: 0.995,
  patience: 5, precision: "float32", protocol: 1, objective: "edges", target_rate: 0.5,
};
// Fields that Python has as float: 10.0 and 10 are different texts, so they have different ids.
const REALS = new Set([
  "sharpness", "positive_weight", "initial_scale", "initial_threshold", "learning_rate", "weight_decay", "beta1", "beta2",
  "epsilon", "stop_above", "target_rate",
]);
const LONG = 80000;
const TABLE_2 = {
  "256,16": 30000, "512,16": LONG, "1024,128": LONG, "2048,256": LONG, "4096,512": 200000, "1024,32": LONG,
};

/** The paper's step limit for a size; `step_limit` of src/manyheads/training/protocol.py. */
export function stepLimit(items, d_model, rule = "max") {
  if (rule === "softmax") return LONG;
  return TABLE_2[`${items},${d_model}`] ?? (items > 512 || items > 16 * d_model ? LONG : 20000);
}

/** The fields of a run: of a permutation over Gaussian rows, or of a graph and rows of files (`graph`, `rows`: given:…). */
export function runFields({ items, d_model, heads, key_heads = heads, key_width, context, seed, rule, steps, graph = "permutation", rows = "gaussian", permutation = true }) {
  return {
    ...PROTOCOL, items, d_model, heads, ...(key_heads === heads ? {} : { key_heads }), key_width, seed, problem_seed: seed, graph, degree: 1, embedding: rows, rule,
    message_width: d_model, context, positive_weight: permutation ? context - 1 : "balanced", initial_scale: d_model ** -0.5, steps,
  };
}

/** A float as Python's repr writes it. */
export function pythonFloat(number) {
  if (Number.isInteger(number) && Math.abs(number) < 1e16) return `${Object.is(number, -0) ? "-0" : number}.0`;
  const size = Math.abs(number);
  const [digits, exponent] = number.toExponential().split("e");
  if (size >= 1e-4 && size < 1e16) return String(number);
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

/** 16 hexadecimal digits of the SHA-256 of the fields, as `fields_id` of src/manyheads/identity.py. */
export function runId(fields) {
  const text = Object.keys(fields).sort().map((name) => {
    const value = fields[name];
    const real = REALS.has(name) && typeof value === "number";
    return `${JSON.stringify(name)}:${real ? pythonFloat(value) : JSON.stringify(value)}`;
  });
  return sha256(`{${text.join(",")}}`).slice(0, 16);
}
