// The runs of a sweep, and the smallest key budget that they show.
import { freedomKeyWidth } from "./laws.mjs";

const HEAD_COUNTS = [1, 2, 4, 8];
const PLACES = [0.4, 0.6, 0.75, 0.9, 1, 1.15, 1.35, 1.6]; // key widths, as parts of the width by the law of freedom

/** The name of a problem, with the heads for each key head: runs with the same name are points of one picture. */
export function problemName({ items, d_model, heads, key_heads = heads, context, rule, seed, graph = "permutation", rows, embedding = rows ?? "gaussian" }) {
  return [items, d_model, context, rule, seed, graph, embedding, heads / key_heads].join(" ");
}

/** The shapes to train: for each head count, key widths around the law's; all widths up to d_model where it has none. */
export function sweepShapes({ items, relations = items, d_model, ...chosen }) {
  const group = chosen.heads / chosen.key_heads || 1; // heads for each key head
  return HEAD_COUNTS.map((count) => count * group).flatMap((heads) => {
    const key_heads = heads / group;
    const width = freedomKeyWidth({ items, relations, d_model, heads, key_heads }) ?? d_model;
    const widths = PLACES.map((part) => Math.max(1, Math.min(64, Math.round(part * width))));
    return [...new Set(widths)].map((key_width) => ({ heads, key_heads, key_width }));
  });
}

/** For each head count, the smallest key budget among its runs with F1 of at least the goal. */
export function smallestBudgets(runs, goal) {
  const found = new Map();
  for (const { heads, key_budget, micro_f1 } of runs) {
    if (micro_f1 < goal) continue;
    found.set(heads, Math.min(found.get(heads) ?? Infinity, key_budget));
  }
  return found;
}
