// The matrix of all pairs as a picture. It is painted in the worker, so that the page never waits for it.

/** 1 for each relation, 0 for each other pair. */
export function relatedPairs({ items, starts, targets }) {
  const related = new Uint8Array(items * items);
  for (let i = 0; i < items; i++) for (let n = starts[i]; n < starts[i + 1]; n++) related[i * items + targets[n]] = 1;
  return related;
}

/** The state of each pair: 0 right and no relation, 1 right relation, 2 missed relation, 3 false pair. */
export function pairStates(related, scores, threshold) {
  const states = new Uint8Array(scores.length);
  for (let at = 0; at < scores.length; at++) {
    const found = scores[at] > threshold;
    states[at] = related[at] ? (found ? 1 : 2) : found ? 3 : 0;
  }
  return states;
}

/** The marks of a pair in a square of `side` pixels: whether the pixel (x, y) belongs to the mark. */
const MARK_PIXELS = [
  () => false,
  () => true, // a square
  (x, y, side) => Math.min(Math.abs(x - y), Math.abs(x + y - side + 1)) <= Math.max(0, side / 10), // a cross
  (x, y, side) => y >= Math.floor(side / 3) && y < Math.max(Math.ceil((2 * side) / 3), 1), // a bar
];

/**
 * The pixels of the matrix: shades by score; relations are squares, missed relations crosses, false pairs bars.
 *
 * `palette` has [red, green, blue] of ground, shade, right, missed, false, text and of the heads. Returns { side, data }.
 */
export function matrixPixels({ items, scores, threshold, states, winners, byHead, chosen, palette }) {
  const side = items > 128 ? 1 : Math.floor(720 / items);
  const width = side * items;
  const data = new Uint8ClampedArray(4 * width * width);
  const words = new Uint32Array(data.buffer);
  const word = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  let largest = 1e-12;
  for (let at = 0; at < scores.length; at++) largest = Math.max(largest, Math.abs(scores[at] - threshold));
  const [ground, shade] = [palette.ground, palette.shade];
  const shades = Array.from({ length: 101 }, (_, n) => word(ground.map((part, c) => part + 0.5 * (n / 100) ** 3 * (shade[c] - part))));
  const heads = palette.heads.map(word);
  const marks = [0, word(palette.right), word(palette.missed), word(palette.false)];
  for (let i = 0; i < items; i++)
    for (let j = 0; j < items; j++) {
      const at = i * items + j;
      const state = states[at];
      const near = 1 + (scores[at] - threshold) / largest; // 0 far below the threshold, 1 at it
      const under = state === 0 && near > 0.3 ? shades[Math.min(100, Math.round(100 * near))] : shades[0];
      const colour = state === 1 && byHead ? heads[winners[at] % heads.length] : marks[state];
      if (side === 1) words[at] = state ? colour : under;
      else
        for (let y = 0; y < side; y++) {
          const row = (i * side + y) * width + j * side;
          for (let x = 0; x < side; x++) words[row + x] = state && MARK_PIXELS[state](x, y, side) ? colour : under;
        }
    }
  if (chosen) frame(words, width, side, chosen, word(palette.text));
  return { width, data };
}

/** A frame of two pixels around the chosen pair. */
function frame(words, width, side, { source, target }, colour) {
  const [top, left] = [source * side - 2, target * side - 2];
  const end = side + 3;
  for (let y = 0; y <= end; y++)
    for (let x = 0; x <= end; x++) {
      const edge = y < 2 || x < 2 || y > end - 2 || x > end - 2;
      const [row, column] = [top + y, left + x];
      if (edge && row >= 0 && column >= 0 && row < width && column < width) words[row * width + column] = colour;
    }
}
