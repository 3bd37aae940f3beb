// The laws and counts of the package that the page shows: src/manyheads/bounds/laws.py and graph_counts.py.

const MAX_HEADS = 4096;
export const PERMUTATION_SLOPE = 1.19;

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
  // the best t has f·E[(t + z)₊] = (1 − f)·E[(−t + z)₊]; the difference rises with t
  let [low, high] = [0, 37.5];
  for (let n = 0; n < 100; n++) {
    const t = (low + high) / 2;
    const above = t * below(t) + density(t);
    const under = density(t) - t * below(-t);
    if (f * above < (1 - f) * under) low = t;
    else high = t;
  }
  return f * below(low) + (1 - f) * below(-low);
}

/** m²·g*(m'/(h·m²)): the degrees of freedom that each of h heads needs for its share of the relations. */
export function freedomNeeded({ items, relations, heads }) {
  return items ** 2 * constraintShare(relations / (heads * items ** 2));
}

/** The degrees of freedom of one head of this width. */
export function headFreedom({ d_model, key_width }) {
  const rank = Math.min(key_width, d_model);
  return 2 * d_model * rank - rank ** 2;
}

/** The smallest key width with which each head has the freedom that its share of the relations needs, or null. */
export function freedomKeyWidth({ items, relations, d_model, heads }) {
  const needed = freedomNeeded({ items, relations, heads });
  for (let key_width = 1; key_width <= d_model; key_width++)
    if (headFreedom({ d_model, key_width }) >= needed) return key_width;
  return null;
}

/** The split with the smallest key budget by the degrees-of-freedom law, or null. */
export function freedomSplit({ items, relations, d_model, most = MAX_HEADS }) {
  let best = null;
  for (let heads = 1; heads <= most; heads++) {
    if (best && heads >= best.heads * best.key_width) break; // a head has at least one key dimension
    const key_width = freedomKeyWidth({ items, relations, d_model, heads });
    if (key_width !== null && (!best || heads * key_width < best.heads * best.key_width)) best = { heads, key_width };
  }
  return best;
}

/** D_K* as the paper measured it: slope·m'·log2 m/d_model. */
export function paperKeyBudget({ items, relations, d_model, slope = PERMUTATION_SLOPE }) {
  return (slope * relations * Math.log2(items)) / d_model;
}

/** log2 m! over the weights of W_Q and W_K. */
export function bitsPerWeight({ items, d_model, heads, key_width }) {
  let bits = 0;
  for (let n = 2; n <= items; n++) bits += Math.log2(n);
  return bits / (2 * d_model * heads * key_width);
}
