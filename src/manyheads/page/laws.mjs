// The laws and counts of the package that the page shows: src/manyheads/bounds/laws.py and graph_counts.py.

const MAX_HEADS = 4096;
export const [PERMUTATION_SLOPE, RELATION_SLOPE] = [1.19, 0.46];

/** The complementary error function; the relative error is below 1e-13. */
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x < 2) {
    let term = x; // erf(x) = 2/√π · Σ (−1)^n x^(2n+1)/(n!·(2n+1))
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * sum;
  }
  let tail = x; // the continued fraction of Laplace, from its end
  for (let n = 120; n > 0; n--) tail = x + n / 2 / tail;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * tail);
}

const below = (t) => erfc(-t / Math.SQRT2) / 2; // Φ(t)
const density = (t) => Math.exp((-t * t) / 2) / Math.sqrt(2 * Math.PI); // φ(t)

/** g*(f): the degrees of freedom for each constraint when a fraction f of the constraints is positive. */
export function constraintShare(positives) {
  const f = Math.min(positives, 1 - positives);
  // the best t has f·E[(t + z)₊] = (1 − f)·E[(−t + z)₊]; the logarithm of the ratio rises with t: halves, then Newton's steps
  const odds = Math.log1p(-f) - Math.log(f);
  const ramps = (t) => [t * below(t) + density(t), density(t) - t * below(-t)];
  let [low, high] = [0, 37.5];
  for (let n = 0; n < 10; n++) {
    const t = (low + high) / 2;
    const [above, under] = ramps(t);
    if (Math.log(above / under) < odds) low = t;
    else high = t;
  }
  let t = (low + high) / 2;
  for (let n = 0; n < 5; n++) {
    const [above, under] = ramps(t);
    t = Math.min(37.5, Math.max(0, t - ((Math.log(above / under) - odds) * above * under) / density(t)));
  }
  return f * below(t) + (1 - f) * below(-t);
}

/** m²·g*(m'/(h·m²)): the degrees of freedom that each of h heads needs for its share of the relations. */
export function freedomNeeded({ items, relations, heads }) {
  return items ** 2 * constraintShare(relations / (heads * items ** 2));
}

/** The degrees of freedom of one head of this width; of heads that share keys, in the mean. */
export function headFreedom({ d_model, heads = 1, key_heads = heads, key_width }) {
  const rank = Math.min(key_width, d_model);
  return ((heads + key_heads) * d_model * rank - key_heads * rank ** 2) / heads;
}

/** The smallest key width with which each head has the freedom that its share of the relations needs, or null. */
export function freedomKeyWidth({ items, relations, d_model, heads, key_heads = heads }) {
  const needed = freedomNeeded({ items, relations, heads });
  for (let key_width = 1; key_width <= d_model; key_width++)
    if (headFreedom({ d_model, heads, key_heads, key_width }) >= needed) return key_width;
  return null;
}

/** The split with the smallest key budget by the degrees-of-freedom law, with `group` heads for each key head, or null. */
export function freedomSplit({ items, relations, d_model, group = 1, most = MAX_HEADS }) {
  let best = null;
  const sizes = { items, relations, d_model };
  if (freedomKeyWidth({ ...sizes, heads: most * group, key_heads: most }) === null) return null; // the need of a head falls with their number
  for (let key_heads = 1; key_heads <= most; key_heads++) {
    if (best && key_heads >= best.key_budget) break; // a head has at least one key dimension
    const key_width = freedomKeyWidth({ ...sizes, heads: key_heads * group, key_heads });
    const key_budget = key_heads * key_width;
    if (key_width !== null && (!best || key_budget < best.key_budget)) best = { heads: key_heads * group, key_heads, key_width, key_budget };
  }
  return best;
}

/** D_K* as the paper measured it: slope·m'·log2 m/d_model. Where `group` heads share a key head, the same weights have it. */
export function paperKeyBudget({ items, relations, d_model, slope = PERMUTATION_SLOPE, group = 1 }) {
  return (2 / (1 + group)) * ((slope * relations * Math.log2(items)) / d_model);
}

/** ln n!: a sum of logarithms for small n, else Stirling's series; the relative error is below 1e-13. */
function lnFactorial(n) {
  let sum = 0;
  for (let k = 2; k <= Math.min(n, 64); k++) sum += Math.log(k);
  if (n <= 64) return sum;
  const x = 1 / n;
  return n * Math.log(n) - n + 0.5 * Math.log(2 * Math.PI * n) + x * (1 / 12 - x * x * (1 / 360 - x * x * (1 / 1260 - (x * x) / 1680)));
}

const lnChoices = (n, k) => lnFactorial(n) - lnFactorial(k) - lnFactorial(n - k);

/** The family that a graph is one of, in words, and log2 of its number of graphs: src/manyheads/bounds/graph_counts.py. */
export function graphBits({ items, relations = items, permutation = true, regular = true, degree = 1, loops = false }) {
  if (permutation) return { bits: lnFactorial(items) / Math.LN2, family: `permutations of ${items} items` };
  const pairs = items * (items - 1);
  if (regular && !loops) {
    const nats = 2 * items * lnChoices(items - 1, degree) - lnChoices(pairs, items * degree) - 0.5;
    return { bits: Math.max(0, nats / Math.LN2), family: `${degree}-regular graphs of ${items} items` };
  }
  const family = `graphs of ${items} items and ${relations} relations${loops ? ", loops allowed" : ""}`;
  return { bits: lnChoices(loops ? items * items : pairs, relations) / Math.LN2, family };
}

/** log2 of the number of graphs over the weights of W_Q and W_K. */
export function bitsPerWeight({ d_model, heads, key_heads = heads, key_width, ...graph }) {
  return graphBits(graph).bits / ((heads + key_heads) * d_model * key_width);
}
