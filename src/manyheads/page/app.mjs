// The page: controls, the run at hand, the sweep, the certificate. Training is in workers; this thread draws.
import { bitsPerWeight, freedomKeyWidth, freedomNeeded, freedomSplit, headFreedom, paperKeyBudget } from "./laws.mjs";
import { drawCurves, element, MARKS, paintMatrix, pairStates } from "./pictures.mjs";
import { runFields, runId, stepLimit } from "./run.mjs";
import { problemName, smallestBudgets, sweepShapes } from "./sweep.mjs";

const CONTROLS = ["items", "d_model", "heads", "key_width", "context", "seed"];
const GOAL = 0.99;
const at = (id) => document.getElementById(id);
const shown = (number, digits = 3) => (Number.isFinite(number) ? Number(number.toPrecision(digits)).toString() : "none");

/** A worker with the engine in it, and a function that receives its messages. */
function openWorker(receive) {
  const text = at("worker").textContent;
  const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  worker.onmessage = (event) => receive(event.data);
  const bytes = Uint8Array.from(atob(at("engine").textContent.trim()), (letter) => letter.charCodeAt(0));
  worker.postMessage({ kind: "load", bytes });
  return worker;
}

const state = {
  number: 0, fields: null, problem: null, curve: [], last: null, layer: null, certificate: null, chosen: null,
  running: false, ready: false, runs: new Map(), // runs of each problem by the name of the problem
};

/** The numbers of the sliders. */
function chosenValues() {
  const values = Object.fromEntries(CONTROLS.map((id) => [id, Number(at(id).value)]));
  values.context = Math.min(values.context, values.items);
  values.rule = at("rule").value;
  return { ...values, steps: stepLimit(values.items, values.d_model, values.rule) };
}

function runsOf(values) {
  const name = problemName(values);
  if (!state.runs.has(name)) state.runs.set(name, []);
  return state.runs.get(name);
}

function list(place, rows) {
  place.replaceChildren(...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
}

function showControls() {
  for (const id of CONTROLS) document.querySelector(`output[for=${id}]`).textContent = at(id).value;
  const values = chosenValues();
  document.querySelector("output[for=context]").textContent = values.context;
  const { items, d_model, heads, key_width } = values;
  const size = { items, relations: items, d_model };
  const needed = freedomNeeded({ items, relations: items, heads });
  const split = freedomSplit(size);
  const enough = headFreedom({ d_model, key_width }) >= needed;
  list(at("advice"), [
    ["key budget", `D_K ${heads * key_width}: ${heads} heads of width ${key_width}`],
    ["degrees of freedom", `a head has ${headFreedom({ d_model, key_width })} and needs ${shown(needed, 4)}: ${enough ? "enough" : "too few"}`],
    ["advice", split ? `${split.heads} heads of width ${split.key_width}: D_K ${split.heads * split.key_width}` : "no number of heads has enough freedom: raise d_model"],
    ["the paper's law", `D_K ${shown(paperKeyBudget(size))}`],
    ["bits per weight", shown(bitsPerWeight(values))],
    ["run", runId(runFields(values))],
  ]);
  const options = `--heads ${heads} --key-width ${key_width} --seed ${values.seed} --context-length ${values.context}`;
  at("command").textContent =
    `manyheads train --graph permutation:${items} --embedding gaussian:${d_model} ${options} --rule ${values.rule} --steps ${values.steps}`;
  showCurve();
}

/** The number of the mark and colour of a head count: powers of two have one each, all others share the last. */
function headMark(heads) {
  const power = Math.log2(heads);
  return Number.isInteger(power) && power < MARKS.length - 1 ? power : MARKS.length - 1;
}

function showCurve() {
  const values = chosenValues();
  const { items, d_model } = values;
  const runs = runsOf(values);
  const size = { items, relations: items, d_model };
  const counts = [...new Set(runs.map((run) => run.heads))].sort((a, b) => a - b);
  const series = counts.map((heads) => ({
    name: heads === 1 ? "1 head" : `${heads} heads`,
    mark: MARKS[headMark(heads)],
    colour: headMark(heads),
    points: runs.filter((run) => run.heads === heads)
      .map((run) => [run.heads * run.key_width, run.micro_f1, `${heads} × ${run.key_width}: F1 ${run.micro_f1.toFixed(4)}, run ${run.id}`]),
  }));
  const split = freedomSplit(size);
  const paper = paperKeyBudget(size);
  const laws = [{ name: `F1 ${GOAL}`, y: GOAL }, { name: `the paper's law, D_K ${shown(paper)}`, x: paper }];
  if (split) laws.push({ name: `law of freedom, D_K ${split.heads * split.key_width}`, x: split.heads * split.key_width });
  const budgets = smallestBudgets(runs, GOAL);
  const best = Math.min(...budgets.values());
  const high = Math.max(paper * 1.3, ...laws.map((law) => law.x ?? 0), ...runs.map((run) => run.heads * run.key_width)) * 1.05;
  if (Number.isFinite(best)) laws.push({ name: `D_K* ${best} (measured here)`, x: best });
  drawCurves(at("curve"), {
    series, laws, x: { name: "key budget D_K", low: 0, high }, y: { name: "test F1", low: 0, high: 1 },
    label: `Test F1 by key budget of ${runs.length} runs`,
  });
  at("points").tBodies[0].replaceChildren(...counts.map((heads) => {
    const width = freedomKeyWidth({ ...size, heads });
    const cells = [heads, budgets.get(heads) ?? "none yet", width ? heads * width : "none", runs.filter((run) => run.heads === heads).length];
    return element("tr", {}, ...cells.map((cell) => element("td", {}, String(cell))));
  }));
}

function keep(fields, micro_f1) {
  const runs = runsOf(fields);
  const id = runId(fields);
  if (!runs.some((run) => run.id === id)) runs.push({ heads: fields.heads, key_width: fields.key_width, micro_f1, id });
}

function showTraining() {
  const points = state.curve.map(({ step, score }) => [step, score, ""]);
  drawCurves(at("training"), {
    series: [{ name: "validation F1", points, colour: 0 }], laws: [{ name: `F1 ${GOAL}`, y: GOAL }],
    x: { name: "steps", low: 0, high: Math.max(500, state.last?.step ?? 0) }, y: { name: "validation F1", low: 0, high: 1 },
    label: `Validation F1 by steps; the last is ${state.last ? state.last.score.toFixed(4) : "not measured"}`,
  });
}

let painting = false;
function paint() {
  if (painting || !state.certificate) return;
  painting = true;
  requestAnimationFrame(() => {
    painting = false;
    const { scores, winners, threshold, missed, false_pairs } = state.certificate ?? {};
    if (!scores) return;
    const states = pairStates(state.problem, scores, threshold);
    paintMatrix(at("matrix"), { items: state.problem.items, scores, threshold, states, winners, byHead: at("by-head").checked, chosen: state.chosen });
    at("matrix").setAttribute("aria-label", `All ${state.problem.items ** 2} pairs: ${missed} relations missed, ${false_pairs} other pairs taken for relations`);
  });
}

function showCertificate() {
  const { certificate, problem } = state;
  at("look").disabled = !certificate;
  at("witness").disabled = !certificate?.witness;
  if (!certificate) {
    const softmax = state.fields?.rule === "softmax";
    at("verdict").textContent = softmax
      ? "Under softmax a score depends on the context. The package proves such layers: manyheads certify --context-length."
      : "No layer yet.";
    at("certificate").replaceChildren();
    at("holders").replaceChildren();
    return;
  }
  const others = problem.items ** 2 - problem.items;
  const reasons = {
    holds: "it recognises every relation, and nothing else, in every context",
    refuted: `it misses ${certificate.missed} of ${problem.items} relations and takes ${certificate.false_pairs} of ${others} other pairs for relations`,
    "not proved": "a score is so near to the threshold that rounding decides",
  };
  at("verdict").replaceChildren(element("strong", {}, certificate.verdict), `: ${reasons[certificate.verdict]}.`);
  const { witness } = certificate;
  list(at("certificate"), [
    ["contexts", "every context of every length"],
    ["threshold", `${shown(certificate.threshold, 6)}, window ${certificate.window.map((end) => shown(end, 6)).join(" … ")}`],
    ["margin", shown(certificate.margin)],
    ["rounding", `at most ${shown(certificate.rounding, 2)}`],
    ["pairs", `${certificate.missed} missed, ${certificate.false_pairs} false, ${certificate.open_pairs} open of ${problem.items ** 2}`],
    ["wrong pair", witness ? `${witness.source} → ${witness.target}` : "none"],
  ]);
  showHolders();
}

/** How many relations each head holds: those that are found and for which it has the largest score. */
function showHolders() {
  const { certificate, problem, layer } = state;
  const counts = new Array(layer.heads).fill(0);
  for (let i = 0; i < problem.items; i++) {
    const place = i * problem.items + problem.targets[i];
    if (certificate.scores[place] > certificate.threshold) counts[certificate.winners[place]]++;
  }
  const rows = counts.map((count, head) =>
    element("tr", {}, element("th", { scope: "row", class: `colour-${head % 6}` }, `■ head ${head}`), element("td", {}, String(count))));
  at("holders").replaceChildren(element("table", {}, element("caption", {}, "Relations that each head holds"), element("tbody", {}, ...rows)));
}

function showPair({ source, target, scores }) {
  const { certificate, problem } = state;
  const score = Math.max(...scores);
  const related = problem.targets[source] === target;
  const found = score > certificate.threshold;
  const margin = related ? score - certificate.threshold : certificate.threshold - score;
  const words = `${source} → ${target} is ${related ? "a relation" : "no relation"}, and the layer ${found ? "recognises it" : "does not recognise it"}: ${related === found ? "right" : "wrong"}. Margin ${shown(margin, 4)}.`;
  const rows = scores.map((one, head) =>
    element("tr", {}, element("th", { scope: "row" }, `head ${head}`), element("td", {}, shown(one, 5)), element("td", {}, one === score ? "wins" : "")));
  const table = element("table", {}, element("caption", {}, `Scores; the threshold is ${shown(certificate.threshold, 5)}`), element("tbody", {}, ...rows));
  at("pair-answer").replaceChildren(element("p", {}, words), table);
}

function choosePair(source, target) {
  const { items } = state.problem ?? { items: 0 };
  if (!state.certificate) return;
  const inside = (item) => Number.isInteger(item) && item >= 0 && item < items;
  if (!inside(source) || !inside(target)) {
    at("pair-answer").textContent = `An item is a whole number from 0 to ${items - 1}.`;
    return;
  }
  state.chosen = { source, target };
  at("source").value = source;
  at("target").value = target;
  main.postMessage({ kind: "pair", heads: state.layer.heads, source, target });
  paint();
}

const ENDS = {
  converged: "5 checks in a row above 0.995", limit: "the step limit", diverged: "the loss or a weight was no longer finite",
};

function receive(message) {
  if (message.kind === "ready") {
    state.ready = true;
    say("Ready: press Train.");
    setButtons();
  }
  if (message.kind === "error") {
    state.running = false;
    say(`This run stopped: ${message.message}.`);
    setButtons();
  }
  if (message.number !== state.number) return;
  if (message.kind === "begun") state.problem = message.problem;
  if (message.kind === "check") receiveCheck(message);
  if (message.kind === "pair") showPair(message);
}

function receiveCheck(message) {
  const { stopped, step, score, micro_f1 } = message;
  if (stopped === "running" && step !== state.last?.step) state.curve.push({ step, score }); // a pause repeats the last check
  state.last = { step, score };
  state.running = !message.paused;
  state.ended = stopped !== "running";
  if (message.layer) Object.assign(state, { layer: message.layer, certificate: message.certificate });
  const progress = `step ${step} of ${state.fields.steps}, validation F1 ${score.toFixed(4)}`;
  if (!state.ended) say(message.paused ? `Stopped at ${progress}. Train begins anew; Step goes on.` : `Training: ${progress}.`);
  else if (micro_f1 === null) say(`${stopped} after ${step} steps: ${ENDS[stopped]}.`);
  else say(`Test F1 ${micro_f1.toFixed(4)}: ${stopped} after ${step} steps (${ENDS[stopped]}).`);
  at("progress").value = state.ended ? 1 : step / state.fields.steps;
  if (state.ended && micro_f1 !== null) {
    keep(state.fields, micro_f1);
    showCurve();
  }
  showTraining();
  if (message.paused) showCertificate();
  paint();
  setButtons();
}

function say(text) {
  at("status").textContent = text;
}

function setButtons() {
  at("train").disabled = !state.ready;
  at("pause").disabled = !state.running && !state.paused();
  at("pause").textContent = state.running || !state.paused() ? "Stop" : "Go on";
  at("step").disabled = !state.ready || state.running;
  at("sweep").disabled = !state.ready || Boolean(sweep);
  at("stop-sweep").disabled = !sweep;
}
state.paused = () => Boolean(state.fields) && !state.running && !state.ended;

function begin(checks) {
  state.fields = runFields(chosenValues());
  Object.assign(state, { number: state.number + 1, curve: [], last: null, layer: null, certificate: null, chosen: null, ended: false, running: true });
  at("pair-answer").replaceChildren();
  showCertificate();
  say("Training begins.");
  main.postMessage({ kind: "begin", number: state.number, fields: state.fields, checks });
  setButtons();
}

function goOn(checks) {
  state.running = true;
  main.postMessage({ kind: "resume", checks });
  setButtons();
}

let sweep = null;
/** Train the shapes of the sweep that have no run yet, in up to two workers. */
function startSweep() {
  const values = chosenValues();
  const all = sweepShapes(values).map((shape) => runFields({ ...values, ...shape }));
  const known = new Set(runsOf(values).map((run) => run.id));
  const todo = all.filter((fields) => !known.has(runId(fields)));
  let done = all.length - todo.length;
  const workers = [];
  const show = (words) => {
    at("sweep-progress").value = done / all.length;
    at("sweep-status").textContent = `${words}${done} of ${all.length} runs`;
  };
  const end = (words) => {
    workers.forEach((worker) => worker.terminate());
    sweep = null;
    show(words);
    setButtons();
  };
  const open = () => {
    let fields = null;
    const next = () => {
      fields = todo.shift() ?? null;
      if (fields) worker.postMessage({ kind: "begin", number: 1, fields, checks: Infinity, quiet: true });
      else if (done === all.length) end("Done: ");
    };
    const worker = openWorker((message) => {
      const ended = message.kind === "check" && message.stopped !== "running";
      if (ended && message.micro_f1 !== null) keep(fields, message.micro_f1);
      if (ended || message.kind === "error") {
        done++;
        show("");
        showCurve();
      }
      if (message.kind === "ready" || ended || message.kind === "error") next();
    });
    workers.push(worker);
  };
  sweep = { stop: () => end("Stopped: ") };
  show("");
  const cores = Math.min(2, navigator.hardwareConcurrency || 1, Math.max(1, todo.length));
  for (let n = 0; n < cores; n++) open();
  setButtons();
}

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(Infinity);
});
at("controls").addEventListener("input", showControls);
at("pause").addEventListener("click", () => (state.running ? main.postMessage({ kind: "pause" }) : goOn(Infinity)));
at("step").addEventListener("click", () => (state.paused() ? goOn(1) : begin(1)));
at("sweep").addEventListener("click", startSweep);
at("stop-sweep").addEventListener("click", () => sweep?.stop());
at("by-head").addEventListener("change", paint);
at("pair").addEventListener("submit", (event) => {
  event.preventDefault();
  choosePair(at("source").valueAsNumber, at("target").valueAsNumber);
});
at("witness").addEventListener("click", () => choosePair(state.certificate.witness.source, state.certificate.witness.target));
at("matrix").addEventListener("click", (event) => {
  const box = at("matrix").getBoundingClientRect();
  const item = (part, whole) => Math.min(state.problem.items - 1, Math.max(0, Math.floor((part / whole) * state.problem.items)));
  if (state.problem) choosePair(item(event.clientY - box.top, box.height), item(event.clientX - box.left, box.width));
});
addEventListener("resize", () => {
  showTraining();
  showCurve();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

const main = openWorker(receive);
showControls();
showTraining();
setButtons();
