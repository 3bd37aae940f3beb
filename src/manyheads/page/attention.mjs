// What attends to what in a layer: the rules of src/manyheads/layer/rules.py, and the pairs above the threshold.

/** The joined scores of one source with the targets of `rows` (one array of scores for each head), and the head that gives most. */
export function joinScores(rule, rows, key_width) {
  const count = rows[0].length;
  let given = rows;
  if (rule === "softmax")
    given = rows.map((row) => {
      const logits = row.map((score) => score / Math.sqrt(key_width));
      const largest = Math.max(...logits);
      const powers = logits.map((logit) => Math.exp(logit - largest));
      const total = powers.reduce((sum, power) => sum + power, 0);
      return powers.map((power) => power / total);
    });
  const scores = new Float64Array(count);
  const winners = new Int32Array(count);
  for (let j = 0; j < count; j++) {
    let [winner, sum] = [0, 0];
    for (let k = 0; k < given.length; k++) {
      if (given[k][j] > given[winner][j]) winner = k;
      sum += given[k][j];
    }
    winners[j] = winner;
    const top = given[winner][j];
    if (rule === "max") scores[j] = top;
    else if (rule === "logsumexp") scores[j] = top + Math.log(given.reduce((total, row) => total + Math.exp(row[j] - top), 0));
    else scores[j] = sum;
  }
  return { scores, winners };
}

/** The scores and winning heads of all pairs of a context, both (n, n); `engine` has the layer open. */
export function contextScores(engine, layer, total, items) {
  const n = items.length;
  const found = { scores: new Float64Array(n * n), winners: new Int32Array(n * n) };
  items.forEach((source, i) => {
    const rows = Array.from({ length: layer.heads }, (_, head) => {
      const whole = engine.scoreRow(head, source, total);
      return Float64Array.from(items, (item) => whole[item]);
    });
    const { scores, winners } = joinScores(layer.rule, rows, layer.key_width);
    found.scores.set(scores, i * n);
    found.winners.set(winners, i * n);
  });
  return found;
}

/** The pairs with a score above the threshold, widest margins first. */
export function passingPairs({ scores, winners }, sources, targets, threshold) {
  const found = [];
  sources.forEach((source, i) =>
    targets.forEach((target, j) => {
      const at = i * targets.length + j;
      if (scores[at] > threshold) found.push({ source, target, score: scores[at], margin: scores[at] - threshold, head: winners[at] });
    }));
  return found.sort((one, other) => other.margin - one.margin);
}

/** The `count` pairs of all items that are nearest to the threshold, or the most wrong; `related` has a 1 for each relation. */
export function hardestPairs({ scores, winners }, related, items, threshold, count = 10) {
  const found = [];
  let most = Infinity; // of the margins in the list
  for (let at = 0; at < items * items; at++) {
    const margin = related[at] ? scores[at] - threshold : threshold - scores[at];
    if (margin >= most && found.length >= count) continue;
    found.push({ source: Math.floor(at / items), target: at % items, score: scores[at], margin, head: winners[at], related: Boolean(related[at]) });
    found.sort((one, other) => one.margin - other.margin);
    if (found.length > count) found.pop();
    most = found.at(-1).margin;
  }
  return found;
}
