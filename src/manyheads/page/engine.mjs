// The C++ engine in this thread: draws problems, trains runs step by step, certifies layers (native/page/page.cpp).
import { Sha256 } from "./hash.mjs";

const STOPS = ["converged", "limit", "diverged", "running"];
const PURPOSE = { graph: 1, embedding: 2, contexts: 3, weights: 5 }; // Purpose of src/manyheads/training/task.py
const SETTINGS = [
  "items", "d_model", "heads", "key_heads", "key_width", "context", "softmax", "balanced", "positive_weight", "target_rate",
  "sharpness", "learning_rate", "weight_decay", "beta1", "beta2", "epsilon", "steps", "validate_every",
  "validation_contexts", "test_contexts", "stop_above", "patience",
];

/** The part of WASI that the module asks for: a clock, and an end where it refuses a size. */
function systemCalls(memory) {
  const stop = () => {
    throw new Error("the engine stopped: a size is out of its range");
  };
  const known = {
    clock_time_get(_clock, _precision, out) {
      new DataView(memory().buffer).setBigUint64(out, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    proc_exit: stop,
  };
  return new Proxy(known, { get: (calls, name) => calls[name] ?? stop, has: () => true });
}

/** The 64 bits of a float64, as numpy's view(uint64). */
function bitsOf(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0);
}

export class Engine {
  /** Compile the module. `bytes` is engine.wasm. */
  static async load(bytes) {
    const engine = new Engine();
    const calls = systemCalls(() => engine.native.memory);
    const module = await WebAssembly.compile(bytes);
    const imports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      imports[from] ??= {};
      imports[from][name] = calls[name];
    }
    engine.native = (await WebAssembly.instantiate(module, imports)).exports;
    engine.native._initialize?.();
    return engine;
  }

  /** Call `body` with addresses of the arrays in the module's memory; `outputs` are copied back afterwards. */
  call(inputs, outputs, body) {
    const arrays = [...inputs, ...outputs];
    const places = arrays.map((array) => this.native.allocate(array.byteLength));
    try {
      if (places.some((place) => !place)) throw new Error("the browser has not enough memory for this size");
      inputs.forEach((array, n) => this.#view(array, places[n]).set(array));
      const answer = body(...places);
      outputs.forEach((array, n) => array.set(this.#view(array, places[inputs.length + n])));
      return answer;
    } finally {
      places.forEach((place) => this.native.release(place));
    }
  }

  #view(array, place) {
    return new array.constructor(this.native.memory.buffer, place, array.length);
  }

  /** `seed_key` of the package: 64 bits from the purpose, the seed and the sizes. */
  seedKey(purpose, ...numbers) {
    const words = BigUint64Array.from([purpose, ...numbers], BigInt);
    return BigInt.asUintN(64, this.call([words], [], (place) => this.native.seed_key(place, words.length)));
  }

  /** The problem that a seed draws: a permutation over Gaussian rows, equal to the package's; `plain`: by the seed itself. */
  drawProblem({ items, d_model, problem_seed }, plain = false) {
    const targets = new Int32Array(items);
    const graphKey = plain ? BigInt(problem_seed) : this.seedKey(PURPOSE.graph, problem_seed, items, 1); // 1: the degree
    this.call([], [targets], (place) => this.native.permutation(graphKey, items, place));
    const numbers = BigInt64Array.from([items, ...targets.keys(), ...targets], BigInt);
    const fingerprint = new Sha256().update(numbers).digest().slice(0, 16);
    const starts = Int32Array.from({ length: items + 1 }, (_, i) => i);
    return { items, d_model, starts, targets, rows: this.gaussianRows(problem_seed, items, d_model, plain), labels: null, fingerprint };
  }

  /** The rows that a seed draws, equal to the package's. */
  gaussianRows(seed, items, d_model, plain = false) {
    const rows = new Float32Array(items * d_model);
    const key = plain ? BigInt(seed) : this.seedKey(PURPOSE.embedding, seed, items, d_model);
    this.call([], [rows], (place) => this.native.gaussian(key, items, d_model, place));
    return rows;
  }

  /** The first query and key weights of a run, in float64. */
  firstWeights({ seed, heads, key_heads, d_model, key_width, initial_scale }) {
    const head = d_model * key_width;
    const shared = key_heads === undefined ? [] : [key_heads];
    const key = this.seedKey(PURPOSE.weights, seed, heads, d_model, key_width, ...shared);
    const numbers = this.normals(key, (heads + (key_heads ?? heads)) * head, initial_scale);
    return { query: numbers.slice(0, heads * head), key: numbers.slice(heads * head) };
  }

  /** Begin a run. `fields` are the fields of a Run as the package has them. */
  begin(fields, problem) {
    const settings = {
      key_heads: fields.heads,
      ...fields,
      softmax: fields.rule === "softmax" ? 1 : 0,
      balanced: fields.positive_weight === "balanced" ? 1 : 0,
      positive_weight: fields.positive_weight === "balanced" ? 0 : fields.positive_weight,
    };
    const numbers = Float64Array.from(SETTINGS, (name) => Number(settings[name]));
    const { problem_seed, items, context, target_rate } = fields;
    const contextKey = this.seedKey(PURPOSE.contexts, problem_seed, items, context, bitsOf(Number(target_rate)));
    this.call([numbers, problem.starts, problem.targets, problem.rows], [], (place, ...arrays) =>
      this.native.begin(place, contextKey, ...arrays),
    );
    this.fields = fields;
    const { query, key } = this.firstWeights(fields);
    this.call([query, key], [], (q, k) => this.native.set_weights(q, k, Number(fields.initial_threshold)));
  }

  /** Train to the next validation check; the scores of the test are there once the run has ended. */
  train() {
    const stopped = STOPS[this.native.train()];
    const numbers = new Float64Array(6);
    this.call([], [numbers], (place) => this.native.result(place));
    const [step, score, loss, hits, falseAlarms, misses] = numbers;
    const ended = stopped === "converged" || stopped === "limit";
    const f1 = hits ? (2 * hits) / (2 * hits + falseAlarms + misses) : 0;
    return { stopped, step, score, loss, micro_f1: ended ? f1 : null };
  }

  /** Train `count` steps and return their losses. */
  advance(count) {
    const losses = new Float64Array(count);
    this.call([], [losses], (place) => this.native.advance(count, place));
    return losses;
  }

  /** The weights of the run as a layer. */
  layer() {
    const { heads, key_heads = heads, d_model, key_width, rule } = this.fields;
    const [query, key] = [heads, key_heads].map((count) => new Float64Array(count * d_model * key_width));
    const threshold = this.call([], [query, key], (q, k) => this.native.weights(q, k));
    return { heads, key_heads, d_model, key_width, rule, query, key, threshold };
  }

  /** Open a layer over rows: `scoreRow` and `certify` are about it. */
  open({ heads, key_heads, d_model, key_width, query, key }, { items, rows }) {
    const sizes = Int32Array.of(items, d_model, heads, key_heads ?? heads, key_width);
    this.call([sizes, query, key, rows], [], (...places) => this.native.open_layer(...places));
  }

  /** The certificate of a layer under the rule max, with the score and the winning head of every pair. */
  certify(layer, problem) {
    const { threshold } = layer;
    const { items, starts, targets } = problem;
    this.open(layer, problem);
    const scores = new Float64Array(items * items);
    const winners = new Int32Array(items * items);
    const numbers = new Float64Array(8);
    this.call([starts, targets], [scores, winners, numbers], (...places) => this.native.certify(threshold, ...places));
    const [low, high, rounding, missed, falsePairs, openPairs, source, target] = numbers;
    const margin = Math.min(high - threshold, threshold - low);
    const verdict = missed + falsePairs > 0 ? "refuted" : openPairs === 0 ? "holds" : "not proved";
    return {
      verdict, margin, rounding, window: [low, high], threshold, missed, false_pairs: falsePairs,
      open_pairs: openPairs, witness: source < 0 ? null : { source, target }, scores, winners,
    };
  }

  /** The scores that a head of the open layer gives to a source with every item. */
  scoreRow(head, source, items) {
    const scores = new Float64Array(items);
    this.call([], [scores], (place) => this.native.score_row(head, source, place));
    return scores;
  }

  /** Begin a fit under the rule max. */
  beginFit({ heads, key_heads, key_width }, { items, d_model, starts, targets, rows }) {
    const sizes = Int32Array.of(items, d_model, heads, key_heads, key_width);
    this.call([sizes, starts, targets, rows], [], (...places) => this.native.begin_fit(...places));
    this.fitSizes = [heads * d_model * key_width, key_heads * d_model * key_width];
  }

  setFit({ query, key, threshold }) {
    this.call([query, key], [], (q, k) => this.native.set_fit(q, k, threshold));
  }

  getFit() {
    const [query, key] = this.fitSizes.map((size) => new Float64Array(size));
    const threshold = this.call([], [query, key], (q, k) => this.native.get_fit(q, k));
    return { query, key, threshold };
  }

  /** Steps of a fit at these rates; without rates, a survey of all pairs. */
  burstFit(rates, { beta1, beta2, weight }, untilOpen) {
    const found = new Float64Array(6);
    const [numbers, options] = [Float64Array.from(rates), Float64Array.of(beta1, beta2, weight)];
    this.call([numbers, options], [found], (place, option, out) => this.native.burst_fit(place, numbers.length, option, untilOpen ? 1 : 0, out));
    const [steps, loss, low, high, missed, falsePairs] = found;
    return { steps, loss, low, high, wrong: missed + falsePairs };
  }

  /** Numbers of numpy's default_rng(seed).standard_normal, times a scale. */
  normals(seed, count, scale) {
    const numbers = new Float64Array(count);
    this.call([], [numbers], (place) => this.native.normals(BigInt(seed), count, scale, place));
    return numbers;
  }
}
