// Training, fitting and the sweep: each run of a problem is a point of its picture.
import { chosenValues, paperBudget, showAdvice, splitOf } from "./controls.mjs";
import { freedomKeyWidth } from "./laws.mjs";
import { drawCurves, element, MARKS } from "./pictures.mjs";
import { sendView, showLayer, showNames } from "./prove.mjs";
import { runFields, runId } from "./run.mjs";
import { problemName, smallestBudgets, sweepShapes } from "./sweep.mjs";
import { anew, at, counted, GOAL, on, openWorker, send, shown, state } from "./view.mjs";

let sweep = null;
let swept = null; // the last sweep: its problem, its state in words, its runs and how many are done

function runsOf(values) {
  const name = problemName(values);
  if (!state.runs.has(name)) state.runs.set(name, []);
  return state.runs.get(name);
}

/** The mark and the colour of a head count: 1, 2, 4, 8 and 16 have a pair of their own, and so have all other counts below 30. */
function headLook(heads) {
  const power = Math.log2(heads);
  if (Number.isInteger(power) && power < MARKS.length - 1) return { mark: MARKS[power], colour: power };
  return { mark: MARKS[(heads + 1 + (Math.floor(heads / 6) % 5)) % MARKS.length], colour: heads % 6 };
}

/** F1 by key budget of all runs of the problem that the sliders choose. */
function showCurve() {
  const values = chosenValues();
  const runs = runsOf(values);
  const counts = [...new Set(runs.map((run) => run.heads))].sort((a, b) => a - b);
  const series = counts.map((heads) => ({
    name: counted(heads, "head"),
    ...headLook(heads),
    points: runs.filter((run) => run.heads === heads)
      .map((run) => [run.key_budget, run.micro_f1, `${heads} × ${run.key_width}: F1 ${run.micro_f1.toFixed(4)}, run ${run.id}`]),
  }));
  const split = splitOf(values);
  const paper = paperBudget(values);
  const laws = [{ name: `F1 ${GOAL}`, y: GOAL }, { name: `the paper's law, D_K ${shown(paper)}`, x: paper }];
  if (split) laws.push({ name: `law of freedom, D_K ${split.key_budget}`, x: split.key_budget });
  const budgets = smallestBudgets(runs, GOAL);
  const best = Math.min(...budgets.values());
  const high = Math.max(paper * 1.3, ...laws.map((law) => law.x ?? 0), ...runs.map((run) => run.key_budget)) * 1.05;
  if (Number.isFinite(best)) laws.push({ name: `D_K* ${best} (measured here)`, x: best });
  drawCurves(at("curve"), {
    series, laws, x: { name: "key budget D_K", low: 0, high }, y: { name: "test F1", low: 0, high: 1 },
    label: `Test F1 by key budget of ${counted(runs.length, "run")}`,
  });
  at("points").tBodies[0].replaceChildren(...counts.map((heads) => {
    const key_heads = (heads * values.key_heads) / values.heads;
    const width = freedomKeyWidth({ ...values, heads, key_heads });
    const cells = [heads, budgets.get(heads) ?? "none yet", width ? key_heads * width : "none", runs.filter((run) => run.heads === heads).length];
    return element("tr", {}, ...cells.map((cell) => element("td", {}, String(cell))));
  }));
}

/** Show everything that follows from the sliders. */
export function showControls() {
  showAdvice();
  showCurve();
  showSweep();
}

/** How far the sweep is; nothing where the last one was of another problem. */
function showSweep() {
  const here = swept?.problem === problemName(chosenValues());
  const { words, done, runs } = here || sweep ? swept : { words: "", done: 0, runs: 0 };
  at("sweep-progress").value = runs && done / runs;
  at("sweep-status").textContent = runs ? `${words}${done} of ${runs} runs${here ? "" : " of the problem where it began"}` : "";
}

function keep(fields, micro_f1) {
  const runs = runsOf(fields);
  const id = runId(fields);
  if (!runs.some((run) => run.id === id)) runs.push({ heads: fields.heads, key_width: fields.key_width, key_budget: (fields.key_heads ?? fields.heads) * fields.key_width, micro_f1, id });
}

/** The validation F1 of a run by steps; of a fit the wrong pairs of its present attempt. */
function showTraining() {
  const { attempt, curve, last } = state;
  const fit = attempt !== null;
  const name = fit ? `wrong pairs, attempt ${attempt + 1}` : "validation F1";
  drawCurves(at("training"), {
    series: [{ name, points: curve.map(({ step, score }) => [step, score, ""]), colour: 0 }], laws: fit ? [] : [{ name: `F1 ${GOAL}`, y: GOAL }],
    x: { name: "steps", low: 0, high: Math.max(fit ? 100 : 500, last?.step ?? 0) },
    y: { name, low: 0, high: fit ? Math.max(10, ...curve.map(({ score }) => score)) : 1 },
    label: `${name} by steps; the last number is ${last ? last.score.toFixed(fit ? 0 : 4) : "not measured"}`,
  });
}

const ENDS = {
  converged: "5 checks in a row above 0.995", limit: "the step limit", diverged: "the loss or a weight was no longer finite",
};

function receiveCheck(message) {
  const { stopped, step, score, micro_f1 } = message;
  if (stopped === "running" && step !== state.last?.step) state.curve.push({ step, score }); // a pause repeats the last check
  state.last = { step, score };
  state.running = !message.paused;
  state.ended = stopped !== "running";
  if (message.seen) state.seen = message.seen;
  const progress = `step ${step} of ${state.fields.steps}, validation F1 ${score.toFixed(4)}`;
  if (!state.ended) say(message.paused ? `Stopped at ${progress}. Go on and Step continue this run; Train begins a new one.` : `Training: ${progress}.`);
  else if (micro_f1 === null) say(`${stopped} after ${step} steps: ${ENDS[stopped]}.`);
  else say(`Test F1 ${micro_f1.toFixed(4)}: ${stopped} after ${step} steps (${ENDS[stopped]}).`);
  at("progress").value = state.ended ? 1 : step / state.fields.steps;
  if (state.ended && micro_f1 !== null) {
    keep(state.fields, micro_f1);
    showCurve();
  }
  if (message.seen || message.paused) showTraining();
  if (message.paused) showLayer();
  setButtons();
}

/** Tell the reader what happens. */
export function say(text) {
  at("status").textContent = text;
}

const paused = () => Boolean(state.fields) && !state.running && !state.ended && !state.fitting;

export function setButtons() {
  const { ready, running, fitting } = state;
  for (const id of ["train", "fit"]) at(id).disabled = !ready || fitting;
  at("pause").disabled = !running && !fitting && !paused();
  at("pause").textContent = paused() ? "Go on" : "Stop";
  at("step").disabled = !ready || running || fitting;
  at("sweep").disabled = !ready || Boolean(sweep);
  at("stop-sweep").disabled = !sweep;
}

/** A new run or fit of the problem that the sliders choose. */
function prepare(changes, words) {
  const { graph } = state.own;
  const values = chosenValues();
  anew({
    items: values.items, relations: values.relations, labels: graph?.labels ?? null, fields: runFields(values),
    origin: graph ? `The layer is of ${graph.name}.` : "", ...changes,
  });
  at("pair-answer").replaceChildren();
  at("attention").replaceChildren();
  showLayer();
  showNames();
  showAdvice();
  showTraining();
  sendView();
  say(words);
  at("progress").value = 0;
  return values;
}

function begin(checks) {
  prepare({ running: true }, "Training begins.");
  state.provenance = { run: runId(state.fields), seed: state.fields.seed };
  send({ kind: "begin", number: state.number, fields: state.fields, checks });
  setButtons();
}

function beginFit() {
  if (at("rule").value !== "max") return say("A fit makes layers of the rule max: choose this rule first.");
  const { heads, key_heads, key_width } = prepare({ fitting: true, attempt: 0 }, "The fit begins.");
  state.provenance = { construction: "fit", seed: 2, rule: "max", map: "none" };
  send({ kind: "fit", number: state.number, fields: state.fields, shape: { heads, key_heads, key_width } });
  setButtons();
}

function receiveFitting({ attempt, step, wrong, phase }) {
  if (attempt !== state.attempt) Object.assign(state, { attempt, curve: [] });
  state.last = { step, score: wrong };
  state.curve.push(state.last);
  showTraining();
  at("progress").value = Math.min(1, step / 2000);
  say(`Fit, attempt ${attempt + 1}, step ${step}: ${counted(wrong, "pair")} wrong${phase === "widen" ? "; the margin is made wider" : ""}.`);
}

function receiveFitted({ stopped, attempts, steps, seen }) {
  Object.assign(state, { fitting: false, ended: true, seen: seen ?? null });
  if (stopped) say("The fit was stopped.");
  else if (seen.certificate.verdict === "holds") say(`Certified after ${counted(attempts, "attempt")}; the last took ${steps} steps.`);
  else say(`Not certified in ${counted(attempts, "attempt")}: raise the heads or the key width.`);
  at("progress").value = stopped ? 0 : 1;
  showLayer();
  setButtons();
}

function goOn(checks) {
  state.running = true;
  send({ kind: "resume", checks });
  setButtons();
}

/** Train the shapes of the sweep that have no run yet, in up to two workers. */
function startSweep() {
  const values = chosenValues();
  const all = sweepShapes(values).map((shape) => runFields({ ...values, ...shape }));
  const known = new Set(runsOf(values).map((run) => run.id));
  const todo = all.filter((fields) => !known.has(runId(fields)));
  let done = all.length - todo.length;
  const workers = [];
  const problem = problemName(values);
  const show = (words) => {
    swept = { problem, words, done, runs: all.length };
    showSweep();
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
    worker.postMessage({ kind: "own", ...state.own });
    workers.push(worker);
  };
  sweep = { stop: () => end("Stopped: ") };
  show("");
  const cores = Math.min(2, navigator.hardwareConcurrency || 1, Math.max(1, todo.length));
  for (let n = 0; n < cores; n++) open();
  setButtons();
}

export function startPlay() {
  on("ready", () => {
    state.ready = true;
    say("Ready: press Train.");
    setButtons();
  });
  on("error", ({ message }) => {
    Object.assign(state, { running: false, fitting: false });
    say(`This run stopped: ${message}.`);
    setButtons();
  });
  on("check", receiveCheck);
  on("fitting", receiveFitting);
  on("fitted", receiveFitted);
  at("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    begin(Infinity);
  });
  at("controls").addEventListener("input", showControls);
  at("fit").addEventListener("click", beginFit);
  at("pause").addEventListener("click", () => (state.running || state.fitting ? send({ kind: "pause" }) : goOn(Infinity)));
  at("step").addEventListener("click", () => (paused() ? goOn(1) : begin(1)));
  at("sweep").addEventListener("click", startSweep);
  at("stop-sweep").addEventListener("click", () => sweep?.stop());
  addEventListener("resize", () => {
    showTraining();
    showCurve();
  });
  showControls();
  showTraining();
  setButtons();
}
