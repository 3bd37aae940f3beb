// Pictures from values: curves and points as SVG.

const SVG = "http://www.w3.org/2000/svg";
export const MARKS = ["circle", "square", "triangle", "diamond", "cross", "ring"]; // a head count has a mark and a colour

/** An element with attributes and text; text is never read as HTML. */
export function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "title", "polyline"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Round numbers that divide a range into about `count` parts. */
export function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

/** Powers of ten within a range, with 2 and 5 times them where they are few. */
export function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) for (const n of [1, 2, 5]) found.push(Number((n * 10 ** power).toPrecision(1)));
  const inside = found.filter((value) => value >= low && value <= high);
  const tens = inside.filter((value) => Number.isInteger(Math.log10(value)));
  return tens.length > 3 ? tens : inside;
}

/** The path of a mark around a point. */
function markPath(kind, x, y, r = 4.5) {
  const shapes = {
    circle: `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: `M${x} ${y - r}l${r} ${2 * r}h${-2 * r}z`,
    diamond: `M${x} ${y - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`,
    cross: `M${x - r} ${y - r}l${2 * r} ${2 * r}M${x + r} ${y - r}l${-2 * r} ${2 * r}`,
    ring: `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  };
  return shapes[kind];
}

/** The name of a vertical law, with its line. */
function lawKey(name, n) {
  const sample = element("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" });
  sample.append(element("line", { x1: 7, x2: 7, y1: 0, y2: 14, class: `law law-${n % 3}` }));
  return element("li", { class: "law-name" }, sample, name);
}

/**
 * Draw curves into `place`. A series is { name, points: [[x, y, words, chosen]], mark }; a law is { name, x } or { name, y }.
 *
 * `chosen` is called where the reader points at a mark or goes to it by the keyboard. An axis with `log` has logarithms.
 */
export function drawCurves(place, { series, laws = [], x, y, label, lines = true }) {
  const width = Math.max(280, Math.min(900, place.clientWidth)); // so that text has its own size on every screen
  const [height, left, bottom, top, right] = [width < 480 ? 240 : 320, 52, 42, 14, 26];
  const part = (axis) => {
    const on = axis.log ? Math.log : (number) => number;
    return (value) => (on(value) - on(axis.low)) / (on(axis.high) - on(axis.low) || 1);
  };
  const [partX, partY] = [part(x), part(y)];
  const across = (value) => left + partX(value) * (width - left - right);
  const up = (value) => height - bottom - partY(value) * (height - bottom - top);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  for (const value of (x.log ? logTicks : ticks)(x.low, x.high, width < 480 ? 4 : 8)) {
    svg.append(element("line", { x1: across(value), x2: across(value), y1: up(y.low), y2: up(y.high), class: "grid" }));
    svg.append(element("text", { x: across(value), y: height - bottom + 16, class: "tick", "text-anchor": "middle" }, String(value)));
  }
  for (const value of (y.log ? logTicks : ticks)(y.low, y.high, 5)) {
    svg.append(element("line", { x1: left, x2: width - right, y1: up(value), y2: up(value), class: "grid" }));
    svg.append(element("text", { x: left - 6, y: up(value) + 4, class: "tick", "text-anchor": "end" }, String(value)));
  }
  svg.append(element("text", { x: (left + width - right) / 2, y: height - 6, class: "axis", "text-anchor": "middle" }, x.name));
  svg.append(element("text", { x: 12, y: height / 2, class: "axis", "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2})` }, y.name));
  const narrow = width < 480;
  const names = []; // of the laws, above all their lines
  const lawKeys = []; // on a narrow screen names of vertical laws are below the picture
  laws.forEach((law, n) => {
    const vertical = law.x !== undefined;
    const value = vertical ? law.x : law.y;
    if (vertical ? value < x.low || value > x.high : value < y.low || value > y.high) return;
    const ends = vertical
      ? { x1: across(value), x2: across(value), y1: up(y.low), y2: up(y.high) }
      : { x1: left, x2: width - right, y1: up(value), y2: up(value) };
    svg.append(element("line", { ...ends, class: `law law-${n % 3}` }));
    const atRight = vertical && across(value) > width * 0.62;
    const at = vertical
      ? { x: across(value) + (atRight ? -5 : 5), y: up(y.low) - 10 - 16 * n, "text-anchor": atRight ? "end" : "start" }
      : { x: left + 6, y: up(value) - 5 };
    if (vertical && narrow) lawKeys.push(lawKey(law.name, n));
    else names.push(element("text", { ...at, class: "law-name" }, law.name));
  });
  svg.append(...names);
  for (const one of series) {
    const group = element("g", { class: `series colour-${one.colour % 6}` });
    const sorted = [...one.points].sort((a, b) => a[0] - b[0]);
    if (lines && sorted.length > 1) group.append(element("polyline", { points: sorted.map(([a, b]) => `${across(a)},${up(b)}`).join(" ") }));
    else if (!one.mark && sorted.length) group.append(element("path", { d: markPath("circle", across(sorted[0][0]), up(sorted[0][1])), class: "mark" }));
    if (one.mark)
      for (const [a, b, words, chosen] of sorted) {
        const mark = element("path", { d: markPath(one.mark, across(a), up(b)), class: `mark ${one.mark}` }, element("title", {}, words));
        if (chosen) {
          mark.setAttribute("tabindex", 0);
          mark.setAttribute("role", "img");
          mark.setAttribute("aria-label", words);
          for (const event of ["pointerenter", "focus", "click"]) mark.addEventListener(event, chosen);
        }
        group.append(mark);
      }
    svg.append(group);
  }
  const keys = series.filter((one) => one.mark).map((one) => {
    const sample = element("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true", class: `colour-${one.colour % 6}` });
    sample.append(element("path", { d: markPath(one.mark, 7, 7), class: `mark ${one.mark}` }));
    return element("li", {}, sample, one.name);
  });
  keys.push(...lawKeys);
  place.replaceChildren(svg, ...(keys.length ? [element("ul", { class: "keys" }, ...keys)] : []));
}
