// Pictures from values: a line picture as SVG, and the matrix of all pairs on a canvas.

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

/**
 * Draw curves into `place`. A series is { name, points: [[x, y, words]], mark }; a law is { name, x } or { name, y }.
 */
export function drawCurves(place, { series, laws = [], x, y, label }) {
  const width = Math.max(280, Math.min(900, place.clientWidth)); // so that text has its own size on every screen
  const [height, left, bottom, top, right] = [width < 480 ? 240 : 320, 52, 42, 14, 14];
  const across = (value) => left + ((value - x.low) / (x.high - x.low || 1)) * (width - left - right);
  const up = (value) => height - bottom - ((value - y.low) / (y.high - y.low || 1)) * (height - bottom - top);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of ticks(x.low, x.high, width < 480 ? 4 : 8)) {
    svg.append(element("line", { x1: across(value), x2: across(value), y1: up(y.low), y2: up(y.high), class: "grid" }));
    svg.append(element("text", { x: across(value), y: height - bottom + 16, class: "tick", "text-anchor": "middle" }, String(value)));
  }
  for (const value of ticks(y.low, y.high)) {
    svg.append(element("line", { x1: left, x2: width - right, y1: up(value), y2: up(value), class: "grid" }));
    svg.append(element("text", { x: left - 6, y: up(value) + 4, class: "tick", "text-anchor": "end" }, String(value)));
  }
  svg.append(element("text", { x: (left + width - right) / 2, y: height - 6, class: "axis", "text-anchor": "middle" }, x.name));
  svg.append(element("text", { x: 12, y: height / 2, class: "axis", "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2})` }, y.name));
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
    svg.append(element("text", { ...at, class: "law-name" }, law.name));
  });
  for (const one of series) {
    const group = element("g", { class: `series colour-${one.colour % 6}` });
    const sorted = [...one.points].sort((a, b) => a[0] - b[0]);
    if (sorted.length > 1) group.append(element("polyline", { points: sorted.map(([a, b]) => `${across(a)},${up(b)}`).join(" ") }));
    if (one.mark)
      for (const [a, b, words] of sorted)
        group.append(element("path", { d: markPath(one.mark, across(a), up(b)), class: `mark ${one.mark}` }, element("title", {}, words)));
    svg.append(group);
  }
  const keys = series.filter((one) => one.mark).map((one) => {
    const sample = element("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true", class: `colour-${one.colour % 6}` });
    sample.append(element("path", { d: markPath(one.mark, 7, 7), class: `mark ${one.mark}` }));
    return element("li", {}, sample, one.name);
  });
  place.replaceChildren(svg, ...(keys.length ? [element("ul", { class: "keys" }, ...keys)] : []));
}

/** The state of each pair: 0 right and no relation, 1 right relation, 2 missed relation, 3 false pair. */
export function pairStates({ items, targets }, scores, threshold) {
  const states = new Uint8Array(items * items);
  for (let i = 0; i < items; i++)
    for (let j = 0; j < items; j++) {
      const found = scores[i * items + j] > threshold;
      const related = targets[i] === j;
      states[i * items + j] = related ? (found ? 1 : 2) : found ? 3 : 0;
    }
  return states;
}

/** Paint one pixel for each pair: with many items, a rectangle for each pair would block the page for seconds. */
function paintPixels(pen, { items, scores, threshold, states, winners, byHead, colour, largest }) {
  const parts = (name) => [1, 3, 5].map((n) => parseInt(colour(name).slice(n, n + 2), 16));
  const [ground, shade, right, missed, wrong] = ["--matrix", "--shade", "--right", "--missed", "--false"].map(parts);
  const heads = [0, 1, 2, 3, 4, 5].map((n) => parts(`--series-${n}`));
  const image = pen.createImageData(items, items);
  for (let at = 0; at < items * items; at++) {
    const state = states[at];
    const near = state === 0 ? Math.max(0, 1 + (scores[at] - threshold) / largest) : 0;
    const part = near > 0.3 ? 0.5 * near ** 3 : 0;
    const full = state === 1 ? (byHead ? heads[winners[at] % 6] : right) : state === 2 ? missed : wrong;
    for (let n = 0; n < 3; n++) image.data[4 * at + n] = state === 0 ? ground[n] + part * (shade[n] - ground[n]) : full[n];
    image.data[4 * at + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
}

/** Paint the matrix: shades by score; relations are squares, missed relations crosses, false pairs bars. */
export function paintMatrix(canvas, { items, scores, threshold, states, winners, byHead, chosen }) {
  const style = getComputedStyle(canvas);
  const known = {};
  const colour = (name) => (known[name] ??= style.getPropertyValue(name).trim());
  const pixels = items > 128;
  const side = pixels ? 1 : Math.floor(720 / items);
  canvas.width = canvas.height = side * items;
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour("--matrix");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  let largest = 1e-12;
  for (const score of scores) largest = Math.max(largest, Math.abs(score - threshold));
  if (pixels) paintPixels(pen, { items, scores, threshold, states, winners, byHead, colour, largest });
  for (let i = 0; i < items && !pixels; i++)
    for (let j = 0; j < items; j++) {
      const at = i * items + j;
      const state = states[at];
      const near = Math.max(0, 1 + (scores[at] - threshold) / largest); // 0 far below the threshold, 1 at it
      if (state === 0 && near > 0.3) {
        pen.globalAlpha = 0.5 * near ** 3;
        pen.fillStyle = colour("--shade");
        pen.fillRect(j * side, i * side, side, side);
        pen.globalAlpha = 1;
      }
      if (state === 0) continue;
      const name = state === 1 ? (byHead ? `--series-${winners[at] % 6}` : "--right") : state === 2 ? "--missed" : "--false";
      pen.fillStyle = pen.strokeStyle = colour(name);
      if (state === 1) pen.fillRect(j * side, i * side, side, side);
      else if (state === 3) pen.fillRect(j * side, i * side + side / 3, side, side / 3);
      else {
        pen.lineWidth = Math.max(1.5, side / 5);
        pen.beginPath();
        pen.moveTo(j * side, i * side);
        pen.lineTo((j + 1) * side, (i + 1) * side);
        pen.moveTo((j + 1) * side, i * side);
        pen.lineTo(j * side, (i + 1) * side);
        pen.stroke();
      }
    }
  if (!chosen) return;
  pen.strokeStyle = colour("--text");
  pen.lineWidth = 2;
  pen.strokeRect(chosen.target * side - 1, chosen.source * side - 1, side + 2, side + 2);
}
