// The paper: its claims with verdicts, its figures from the published rows, and the runs behind each point.
import { drawCurves, element, MARKS } from "./pictures.mjs";
import { at, bytesOf, counted, shown, table } from "./view.mjs";

const VERDICTS = { reproduced: "✓ reproduced", differs: "≠ differs", "not attempted": "– not attempted", failed: "! failed" };
let data = null;

/** The text of gzip bytes. */
async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** A labelled list of options. */
function choice(id, label, options, changed) {
  const select = element("select", { id }, ...options.map(([value, text]) => element("option", { value }, text)));
  select.addEventListener("change", changed);
  return element("span", { class: "choice" }, element("label", { for: id }, label), select);
}

/** A range of numbers with some room; logarithms where the axis has them. */
function rangeOf(values, log) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) return { low: low / 1.2, high: high * 1.2, log };
  return { low: Math.min(0, low), high: high === low ? low + 1 : high * 1.05, log };
}

function showClaims() {
  const wanted = at("paper-verdict").value;
  const word = at("paper-search").value.trim().toLowerCase();
  const fits = (claim) => (!wanted || claim[3] === wanted) && (!word || claim.join(" ").toLowerCase().includes(word));
  const found = data.claims.filter(fits);
  at("paper-count").textContent = `${counted(found.length, "claim")} of ${data.claims.length}`;
  const rows = found.map(([number, says, measured, outcome, why, reason, figure]) => {
    const open = element("button", { type: "button", class: "plain" }, figure);
    open.addEventListener("click", () => {
      at("paper-figure").value = figure;
      showFigure();
      at("paper-picture").scrollIntoView({ block: "center" });
    });
    const more = [why && `Criterion: ${why}`, outcome === "differs" && reason && `Likely reason (a guess): ${reason}`].filter(Boolean);
    const details = more.length ? [element("details", {}, element("summary", {}, "why"), ...more.map((text) => element("p", {}, text)))] : [];
    const verdict = element("span", { class: `verdict ${outcome.replace(" ", "-")}` }, VERDICTS[outcome] ?? outcome);
    return [number, says, element("span", {}, measured, ...details), verdict, data.figures.some(({ name }) => name === figure) ? open : figure];
  });
  at("paper-claims").replaceChildren(table("Claims of the papers, and what was measured here", ["claim", "the paper says", "measured here", "verdict", "figure"], rows));
}

const chosenFigure = () => data.figures.find(({ name }) => name === at("paper-figure").value);

function showFigure() {
  const figure = chosenFigure();
  const panels = [...new Set(figure.points.map(([panel]) => panel))].filter(Boolean);
  at("paper-panel").replaceChildren(...panels.map((panel) => element("option", { value: panel }, panel)));
  at("paper-panel").closest(".choice").hidden = panels.length < 2;
  at("paper-caption").textContent = figure.caption;
  showPanel();
}

/** Draw the points of the chosen figure, panel and curves. */
function showPanel() {
  const figure = chosenFigure();
  const panel = at("paper-panel").value;
  const within = figure.points.filter(([one]) => !one || one === panel);
  const names = [...new Set(within.map(([, series]) => series))].sort((one, other) => Number(one) - Number(other) || one.localeCompare(other));
  const kept = at("paper-series").value;
  const options = ["", ...names].map((name) => element("option", { value: name }, name ? `${figure.series} ${name}` : "all"));
  at("paper-series").replaceChildren(...options);
  at("paper-series").value = names.includes(kept) ? kept : "";
  at("paper-runs").replaceChildren();
  if (!within.length) {
    at("paper-picture").textContent = "This exhibit is a table: its caption says what was measured. The package draws it: manyheads paper.";
    return;
  }
  const wanted = at("paper-series").value;
  const points = within.filter(([, series]) => !wanted || series === wanted);
  const value = ([, , x, y]) => [x, y];
  const drawn = points.filter((point) => value(point).every((number, n) => !figure.log.includes("xy"[n]) || number > 0));
  if (!drawn.length) return at("paper-picture").replaceChildren();
  const series = names.map((name, n) => ({
    name: `${figure.series} ${name}`, mark: MARKS[(n + Math.floor(n / MARKS.length)) % MARKS.length], colour: n, // a mark and a colour for each
    points: drawn.filter(([, one]) => one === name).map((point) => [point[2], point[3], pointWords(figure, point), () => showRuns(figure, point)]),
  })).filter((one) => one.points.length);
  drawCurves(at("paper-picture"), {
    series, label: `${figure.title}: ${counted(drawn.length, "point")}`, lines: !figure.points[0][5],
    x: { name: figure.words[0], ...rangeOf(drawn.map(([, , x]) => x), figure.log.includes("x")) },
    y: { name: figure.words[1], ...rangeOf(drawn.map(([, , , y]) => y), figure.log.includes("y")) },
  });
}

function pointWords(figure, [panel, series, x, y, , words]) {
  return words ?? `${panel ? `${panel}; ` : ""}${figure.series} ${series}, ${figure.words[0]} ${shown(x, 4)}: ${figure.words[1]} ${shown(y, 4)}`;
}

/** The runs behind a point. */
function showRuns(figure, point) {
  const place = at("paper-runs");
  const group = point[4] === null ? null : data.groups[point[4]];
  const words = element("p", {}, `${pointWords(figure, point)}.`);
  if (!group) return place.replaceChildren(words);
  const [score, seeds, scores, ids] = group;
  const rows = seeds.map((seed, n) => [`seed ${seed}`, shown(scores[n], 4), ids.slice(16 * n, 16 * n + 16)]);
  place.replaceChildren(words, table(`${counted(seeds.length, "run")}: the point is their mean`, ["run", score.replace("_", " "), "id"], rows));
}

function build() {
  const tally = Object.keys(VERDICTS).map((outcome) => [outcome, data.claims.filter((claim) => claim[3] === outcome).length]).filter(([, count]) => count);
  const words = tally.map(([outcome, count]) => `${count} ${outcome === "differs" && count > 1 ? "differ" : outcome}`).join(", ");
  const search = element("input", { id: "paper-search", type: "text", autocomplete: "off" });
  search.addEventListener("input", showClaims);
  const filters = element("div", { class: "buttons" },
    choice("paper-verdict", "verdict", [["", "all"], ...tally.map(([outcome, count]) => [outcome, `${outcome} (${count})`])], showClaims),
    element("label", { for: "paper-search" }, "word"), search, element("span", { id: "paper-count", role: "status" }));
  const figures = element("div", { class: "buttons" },
    choice("paper-figure", "figure", data.figures.map(({ name, title }) => [name, `${name}: ${title}`]), showFigure),
    choice("paper-panel", "problem", [], showPanel), choice("paper-series", "curve", [], showPanel));
  at("paper-parts").replaceChildren(
    element("p", {}, `${counted(data.claims.length, "claim")} of two papers: ${words}.`), filters, element("div", { id: "paper-claims", class: "wide tall" }),
    element("h3", {}, "Figures"), figures, element("p", {}, "Point at a mark, or go to it with the Tab key, to see its runs."),
    element("div", { id: "paper-picture", class: "picture" }), element("div", { id: "paper-runs", class: "wide", role: "status", "aria-live": "polite" }),
    element("p", { id: "paper-caption" }));
  at("paper-figure").value = "fig3";
  showClaims();
  showFigure();
}

/** Unpack the rows once the reader comes near to them. */
export function startPaper() {
  const packed = at("rows").textContent.trim();
  if (!packed) return;
  const watch = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    data = JSON.parse(await unpack(bytesOf(packed)));
    build();
  }, { rootMargin: "600px" });
  watch.observe(at("paper"));
}
