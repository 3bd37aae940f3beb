// The worker: one engine, one run or fit at a time, one current layer. It answers messages of the page; every message of a
// run or fit has its number. Files are read here, so that the page never waits for them.
import { contextScores, hardestPairs, passingPairs } from "./attention.mjs";
import { Engine } from "./engine.mjs";
import { fitLayer } from "./fit.mjs";
import { FileError, readGraph } from "./graphs.mjs";
import { shownText } from "./hash.mjs";
import { matrixPixels, pairStates, relatedPairs } from "./matrix.mjs";
import { MOST_LAYER_ITEMS, packLayer, readEmbedding, readLayer, readNpy, readTensors, rowsFingerprint } from "./tensors.mjs";

const MOST_BYTES = 40e6; // of a file
const MOST_TEXT = 8e6;
const SEEDS = 20; // draws that a layer's file is compared with
const MOST_DRAWN = 2 ** 20; // numbers of one such draw: all of them take some seconds

/** Let other messages arrive. A timer would wait 4 ms each time. */
function pauseOf() {
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  return () => new Promise((go) => {
    waiting.push(go);
    channel.port2.postMessage(null);
  });
}

class Stopped extends Error {}

/** Answer messages by `post(message, transferred)`. */
export function serve(post, wait = pauseOf()) {
  let engine = null;
  let own = { graph: null, rows: null }; // of files
  let view = null; // palette, byHead, chosen
  let current = null; // layer, problem, related, certificate or null, scores and winners or null
  let number = 0; // of the current run: a run with another number is over
  let left = 0; // checks to go until the run pauses
  let busy = false;
  let quiet = false; // a run of a sweep is not looked at on the way
  let check = null; // the last one of the run
  let next = 0; // the time from which the scores of all pairs are computed again
  let fitting = false;

  async function work(mine) {
    if (busy) return;
    busy = true;
    try {
      while (mine === number && left > 0) {
        check = engine.train();
        left = check.stopped === "running" ? left - 1 : 0;
        const paused = left === 0;
        post({ kind: "check", number: mine, ...check, paused, ...seen(paused) });
        if (current?.scores && !quiet) paint();
        await wait();
      }
    } catch (error) {
      left = 0;
      post({ kind: "error", number: mine, message: error.message });
    } finally {
      busy = false;
    }
    if (mine !== number && left > 0) work(number);
  }

  /** The layer of the run so far: at its end, and now and then on the way, for at most a fifth of the time. */
  function seen(paused) {
    const now = performance.now();
    if (check.stopped === "diverged" || (!paused && (quiet || now < next)) || (quiet && !current)) return {};
    if (quiet) return {};
    show(engine.layer(), current.problem);
    next = performance.now() + Math.max(100, 4 * (performance.now() - now));
    return { seen: summary(paused) };
  }

  /** Make a layer the current one: its certificate under the rule max, else the scores of all pairs where they exist. */
  function show(layer, problem) {
    const related = current?.problem === problem ? current.related : relatedPairs(problem);
    current = { layer, problem, related, certificate: null, scores: null, winners: null };
    if (layer.rule === "max") {
      const { scores, winners, ...certificate } = engine.certify(layer, problem);
      Object.assign(current, { certificate: problem.known === false ? null : certificate, scores, winners });
    } else {
      engine.open(layer, problem);
      const items = Array.from({ length: problem.items }, (_, item) => item);
      if (layer.rule !== "softmax") Object.assign(current, contextScores(engine, layer, problem.items, items));
    }
  }

  /** What the page shows of the current layer. */
  function summary(whole) {
    const { layer, problem, certificate, scores, winners, related } = current;
    const { heads, key_heads, d_model, key_width, rule, threshold } = layer;
    const shown = { layer: { heads, key_heads, d_model, key_width, rule, threshold }, certificate, blind: rule !== "softmax" };
    if (!scores) return shown;
    const holders = new Array(heads).fill(0);
    for (let at = 0; at < scores.length; at++)
      if ((related[at] || problem.known === false) && scores[at] > threshold) holders[winners[at]]++;
    const hardest = whole && problem.known !== false ? hardestPairs(current, related, problem.items, threshold) : null;
    return { ...shown, holders, hardest };
  }

  function paint() {
    if (!view || !current?.scores) return;
    const { problem, related, scores, winners, layer } = current;
    const states = problem.known === false
      ? Uint8Array.from(scores, (score) => (score > layer.threshold ? 1 : 0))
      : pairStates(related, scores, layer.threshold);
    const picture = matrixPixels({ items: problem.items, scores, winners, states, threshold: layer.threshold, ...view });
    post({ kind: "picture", number, items: problem.items, ...picture }, [picture.data.buffer]);
  }

  /** The problem of a run: drawn from its seed, or of the reader's files. */
  function problemOf(fields) {
    if (!fields.graph.startsWith("given:")) return engine.drawProblem(fields);
    const { graph, rows } = own;
    return { ...graph, d_model: fields.d_model, rows: rows ? rows.rows : engine.gaussianRows(fields.problem_seed, graph.items, fields.d_model) };
  }

  async function readFile(file, mostItems) {
    const name = shownText(file.name);
    const text = /\.(csv|tsv|txt)$/i.test(name);
    const most = text ? MOST_TEXT : MOST_BYTES;
    if (!text && !/\.(npy|safetensors)$/i.test(name)) throw new FileError(`${name} is no file that the page reads: it reads edge lists (.csv, .tsv), layers (.safetensors) and rows (.npy, .safetensors).`);
    if (file.size > most) throw new FileError(`${name} has ${Math.round(file.size / 1e6)} MB: the page reads up to ${most / 1e6} MB.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (text) return { what: "graph", graph: readGraph(bytes, name, mostItems) };
    if (/\.npy$/i.test(name)) return { what: "rows", rows: readNpy(bytes, name) };
    const tensors = readTensors(bytes, name);
    return tensors.metadata.format === "manyheads layer"
      ? { what: "layer", ...found(readLayer(tensors)) }
      : { what: "rows", rows: readEmbedding(tensors) };
  }

  /** A layer whose file says of which drawn rows and which drawn permutation it is: they are drawn again here. */
  function found(opened) {
    const { layer, record } = opened;
    const items = record?.certificate?.items;
    if (!Number.isInteger(items) || items < 2 || items > MOST_LAYER_ITEMS || items * layer.d_model > MOST_DRAWN) return opened;
    for (let seed = 0; seed < SEEDS && !(opened.rows && opened.graph); seed++)
      for (const word of ["", "run "]) { // a command draws by its seeds themselves, a run by keys that it makes of its seed
        const problem = engine.drawProblem({ items, d_model: layer.d_model, problem_seed: seed }, word === "");
        const from = (name) => `${name}, ${word}seed ${seed}`;
        if (!opened.rows && rowsFingerprint(problem.rows, items, layer.d_model) === record.embedding)
          opened.rows = { items, d_model: layer.d_model, rows: problem.rows, name: from(`gaussian:${layer.d_model}`), fingerprint: record.embedding };
        if (!opened.graph && problem.fingerprint === record.graph)
          opened.graph = { ...problem, relations: items, name: from(`permutation:${items}`), permutation: true, regular: true, degree: 1, loops: false };
      }
    return opened;
  }

  const answers = {
    async load({ bytes }) {
      engine = await Engine.load(bytes);
      post({ kind: "ready" });
    },
    own(message) {
      own = { graph: message.graph, rows: message.rows };
    },
    view(message) {
      view = message.view;
      paint();
    },
    begin({ fields, checks, ...message }) {
      number = message.number;
      quiet = Boolean(message.quiet);
      check = null;
      const problem = problemOf(fields);
      current = { problem, related: relatedPairs(problem) };
      engine.begin(fields, problem);
      post({ kind: "begun", number });
      left = checks;
      next = 0;
      work(number);
    },
    resume({ checks }) {
      left = checks;
      work(number);
    },
    pause() {
      fitting = false;
      left = check ? 0 : Math.min(left, 1); // a run without a check stops at its first
      if (!check) return;
      post({ kind: "check", number, ...check, paused: true, ...seen(true) });
      paint();
    },
    async fit({ fields, shape, ...message }) {
      number = message.number;
      [left, check, current, fitting] = [0, null, null, true];
      const problem = problemOf(fields);
      const tell = (progress) => post({ kind: "fitting", number: message.number, ...progress });
      const go = async () => {
        await wait();
        if (!fitting || number !== message.number) throw new Stopped();
      };
      try {
        const { layer, attempts, steps } = await fitLayer(engine, shape, problem, { tell, wait: go });
        show(layer, problem);
        post({ kind: "fitted", number, attempts, steps, seen: summary(true) });
        paint();
      } catch (error) {
        if (!(error instanceof Stopped)) throw error;
        post({ kind: "fitted", number, stopped: true });
      }
      fitting = false;
    },
    async files({ files, most }) {
      for (const file of files) {
        try {
          post({ kind: "file", ...(await readFile(file, most)) });
        } catch (error) {
          const message = error instanceof FileError ? error.message : `${shownText(file.name)} cannot be read: ${error.message}.`;
          post({ kind: "file", what: "wrong", message });
        }
      }
      post({ kind: "file", what: "end" });
    },
    open({ layer, rows, graph, labels, ...message }) {
      number = message.number;
      [left, check] = [0, null];
      const empty = { starts: new Int32Array(rows.items + 1), targets: new Int32Array(0), fingerprint: null, known: false };
      current = null;
      show(layer, { ...(graph ?? empty), items: rows.items, d_model: rows.d_model, rows: rows.rows, labels });
      post({ kind: "opened", number, seen: summary(true) });
      paint();
    },
    pair({ source, target }) {
      if (!current?.layer) return;
      const { layer, problem, related } = current;
      const { items } = problem;
      const scores = Array.from({ length: layer.heads }, (_, head) => engine.scoreRow(head, source, items)[target]);
      post({ kind: "pair", number, source, target, scores, related: problem.known === false ? null : Boolean(related[source * items + target]) });
    },
    attend({ items }) {
      if (!current?.layer) return;
      const { layer, problem } = current;
      const all = Array.from({ length: problem.items }, (_, item) => item);
      let pairs;
      if (items.length > 1) pairs = passingPairs(contextScores(engine, layer, problem.items, items), items, items, layer.threshold);
      else {
        const [item] = items;
        const from = { scores: current.scores.subarray(item * problem.items, (item + 1) * problem.items), winners: current.winners.subarray(item * problem.items) };
        const to = { scores: all.map((source) => current.scores[source * problem.items + item]), winners: all.map((source) => current.winners[source * problem.items + item]) };
        const loop = (pair) => pair.source !== pair.target;
        pairs = [...passingPairs(from, [item], all, layer.threshold), ...passingPairs(to, all, [item], layer.threshold).filter(loop)];
      }
      post({ kind: "attention", number, items, pairs });
    },
    pack({ provenance, software }) {
      if (!current?.layer) return;
      const { layer, problem, certificate } = current;
      const bytes = packLayer({ layer, problem, certificate, provenance, software });
      post({ kind: "packed", number, bytes }, [bytes.buffer]);
    },
  };
  return async (message) => {
    try {
      await answers[message.kind](message);
    } catch (error) {
      post({ kind: "error", number, message: error.message });
    }
  };
}
