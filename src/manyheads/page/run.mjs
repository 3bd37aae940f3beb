// A run of the package: its fields with every default resolved, and its id.

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

/** The fields of a run that learns a permutation over Gaussian rows. */
export function runFields({ items, d_model, heads, key_width, context, seed, rule, steps }) {
  return {
    ...PROTOCOL, items, d_model, heads, key_width, seed, problem_seed: seed, graph: "permutation", degree: 1,
    embedding: "gaussian", rule, message_width: d_model, context, positive_weight: context - 1,
    initial_scale: d_model ** -0.5, steps,
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
  return sha256(new TextEncoder().encode(`{${text.join(",")}}`)).slice(0, 16);
}

/** The first `count` primes. */
function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime)) found.push(n);
  return found;
}

/** SHA-256 in hexadecimal digits. The browser's own function does not exist on pages from some places. */
export function sha256(bytes) {
  const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) >>> 0;
  const constants = primes(64).map((prime) => fraction(Math.cbrt(prime)));
  const state = primes(8).map((prime) => fraction(Math.sqrt(prime)));
  const padded = new Uint8Array((((bytes.length + 8) >> 6) + 1) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, bytes.length * 8);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  const turn = (x, count) => (x >>> count) | (x << (32 - count));
  const w = new Uint32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(block + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [x, y] = [w[i - 15], w[i - 2]];
      const early = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const late = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      w[i] = w[i - 16] + early + w[i - 7] + late;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const choice = (e & f) ^ (~e & g);
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + constants[i] + w[i]) | 0;
      const majority = (a & b) ^ (a & c) ^ (b & c);
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i] + word) >>> 0));
  }
  return state.map((word) => word.toString(16).padStart(8, "0")).join("");
}
