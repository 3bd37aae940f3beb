// The compact compiler under the rule max, as src/manyheads/fitting has it: attempts from several starts until a
// certificate proves the layer. Steps and surveys are native code.

export const DESCENT = { steps: 2000, rate: 0.25, hold: 0.3, beta1: 0.98, beta2: 0.98, weight: 3, widen: 200 };
const [BURSTS, STUCK, RESTARTS, CHAIN] = [20, 0.002, 12, 6];
const [SCALE, THRESHOLD, SHRUNK] = [0.2, 1.5, 0.3];

/** The learning rate of every step. */
export function fitRates({ steps, rate, hold } = DESCENT) {
  return Array.from({ length: steps }, (_, n) => {
    const falling = Math.min(1, Math.max(0, (n / steps - hold) / (1 - hold)));
    return (rate * (1 + Math.cos(Math.PI * falling))) / 2;
  });
}

/** Normal weights, the same that numpy draws for the package. */
export function randomStart(engine, { d_model, heads, key_heads, key_width, seed }) {
  const [queries, keys] = [heads * d_model * key_width, key_heads * d_model * key_width];
  const numbers = engine.normals(seed, queries + keys, SCALE * key_width ** -0.25);
  return { query: numbers.slice(0, queries), key: numbers.slice(queries), threshold: THRESHOLD };
}

const shrunk = ({ query, key, threshold }) => ({
  query: query.map((weight) => weight * SHRUNK), key: key.map((weight) => weight * SHRUNK), threshold: threshold * SHRUNK ** 2,
});

const size = (weights) => Math.sqrt(weights.reduce((sum, weight) => sum + weight * weight, 0));
const normalised = ({ low, high, weights }) => (high - low) / (size(weights.query) * size(weights.key));

/** Bursts of steps; each ends with a survey of all pairs. */
async function* bursts(engine, rates, untilOpen, wait) {
  const length = Math.max(1, Math.floor(rates.length / BURSTS));
  for (let done = 0; done < rates.length; ) {
    const burst = engine.burstFit(rates.slice(done, done + length), DESCENT, untilOpen);
    done += burst.steps;
    // a burst looks before each step: its last finding is of the weights before the last step, unless it ended early
    const finding = burst.steps === length ? engine.burstFit([], DESCENT, false) : burst;
    yield { done, finding };
    await wait();
    if (burst.steps < length && untilOpen) return;
  }
}

/** One attempt: separate all pairs, then widen the window; the weights with the widest window for their size are kept. */
async function attempt(engine, start, tell, wait) {
  engine.setFit(start);
  const result = (finding, steps) => ({ ...finding, steps, separated: finding.low < finding.high, weights: engine.getFit() });
  let [before, reached] = [null, null];
  for await (const { done, finding } of bursts(engine, fitRates(), true, wait)) {
    tell({ phase: "separate", step: done, ...finding });
    const stuck = before && done > DESCENT.hold * DESCENT.steps && finding.loss > (1 - STUCK) * before.loss;
    [before, reached] = [finding, result(finding, done)];
    if (reached.separated || stuck || !Number.isFinite(finding.loss)) break;
  }
  if (!reached.separated || reached.loss === 0) return reached;
  let best = reached;
  const falling = Array.from({ length: DESCENT.widen }, (_, n) => (DESCENT.rate / 4) * (1 - n / DESCENT.widen));
  for await (const { done, finding } of bursts(engine, falling, false, wait)) {
    tell({ phase: "widen", step: reached.steps + done, ...finding });
    const now = result(finding, reached.steps + done);
    if (now.separated && normalised(now) > normalised(best)) best = now;
    if (finding.loss === 0) break;
  }
  return best;
}

/** The layer of an attempt with the threshold in the middle of its window: in single precision where that certifies. */
function judge(engine, weights, shape, problem) {
  let found = null;
  for (const narrow of [true, false]) {
    const [query, key] = [weights.query, weights.key].map((part) => (narrow ? part.map(Math.fround) : part));
    const layer = { ...shape, rule: "max", query, key, threshold: weights.threshold };
    const { window: [low, high] } = engine.certify(layer, problem);
    if (low < high) layer.threshold = Number.isFinite(low) ? (Number.isFinite(high) ? (low + high) / 2 : low + 1) : high - 1;
    found = { layer, certificate: engine.certify(layer, problem) };
    if (found.certificate.verdict === "holds") break;
  }
  return found;
}

/**
 * Fit a layer of this shape to the problem until it certifies, in at most 12 attempts.
 *
 * `tell` receives the progress; `wait` lets messages arrive, and throws to end the fit.
 */
export async function fitLayer(engine, shape, problem, { seed = 2, restarts = RESTARTS, tell = () => {}, wait = async () => {} } = {}) {
  const full = { key_heads: shape.heads, ...shape, d_model: problem.d_model };
  engine.beginFit(full, problem);
  let [best, last] = [null, null];
  let number = 0;
  for (; number < restarts; number++) {
    const start = !last || number % CHAIN === 0 ? randomStart(engine, { ...full, seed: seed + number }) : shrunk(last.weights);
    last = await attempt(engine, start, (progress) => tell({ attempt: number, ...progress }), wait);
    const nearer = !best || [!best.separated, best.wrong, best.loss].some((value, n, old) => {
      const now = [!last.separated, last.wrong, last.loss];
      return now.slice(0, n).every((one, m) => one === old[m]) && now[n] < value;
    });
    if (nearer) best = { ...last, ...judge(engine, last.weights, full, problem) };
    if (best.certificate.verdict === "holds") break;
  }
  return { layer: best.layer, certificate: best.certificate, attempts: Math.min(number + 1, restarts), steps: best.steps };
}
