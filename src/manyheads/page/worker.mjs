// The worker: one engine, one run at a time. It answers messages of app.mjs; every message of a run has the run's number.
import { Engine } from "./engine.mjs";

/** Answer messages by `post`. `wait` lets messages arrive between two validation checks. */
export function serve(post, wait = () => new Promise((go) => setTimeout(go, 0))) {
  let engine = null;
  let problem = null;
  let number = 0; // of the current run: a run with another number is over
  let left = 0; // checks to go until the run pauses
  let busy = false;
  let quiet = false; // a run of a sweep is not looked at on the way
  let check = null; // the last one of the run
  let last = 0; // when the scores of all pairs were sent

  async function work(mine) {
    if (busy) return;
    busy = true;
    try {
      while (mine === number && left > 0) {
        check = engine.train();
        left = check.stopped === "running" ? left - 1 : 0;
        post({ kind: "check", number: mine, ...check, paused: left === 0, ...seen(check) });
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

  /** The layer, and under the rule max the scores of all pairs: at the end, and ten times a second on the way. */
  function seen(check) {
    const early = left > 0 && (quiet || performance.now() - last < 100);
    if (check.stopped === "diverged" || early) return {};
    last = performance.now();
    const layer = engine.layer();
    return { layer, certificate: layer.rule === "max" ? engine.certify(layer, problem) : null };
  }

  const answers = {
    async load({ bytes }) {
      engine = await Engine.load(bytes);
      post({ kind: "ready" });
    },
    begin({ fields, checks, ...message }) {
      number = message.number;
      quiet = Boolean(message.quiet);
      check = null;
      problem = engine.drawProblem(fields);
      engine.begin(fields, problem);
      post({ kind: "begun", number, problem: { items: problem.items, targets: problem.targets } });
      left = checks;
      work(number);
    },
    resume({ checks }) {
      left = checks;
      work(number);
    },
    pause() {
      left = 0;
      if (check) post({ kind: "check", number, ...check, paused: true, ...seen(check) });
    },
    pair({ heads, source, target }) {
      post({ kind: "pair", number, source, target, scores: engine.headScores(heads, source, target) });
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
