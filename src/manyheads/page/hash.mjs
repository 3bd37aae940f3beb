// SHA-256, and texts as Python writes them: for the ids of runs, the fingerprints of graphs, and the checksums of files.

/** The first `count` primes. */
function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime)) found.push(n);
  return found;
}

const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const ROUNDS = Int32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)));

/** SHA-256 of parts, one after another. The browser's own function does not exist on pages from some places. */
export class Sha256 {
  #state = Int32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)));
  #words = new Int32Array(64);
  #block = new Uint8Array(64);
  #filled = 0;
  #length = 0;

  /** Add bytes, or a text in UTF-8. Returns this object. */
  update(part) {
    const bytes = typeof part === "string" ? new TextEncoder().encode(part) : new Uint8Array(part.buffer ?? part, part.byteOffset ?? 0, part.byteLength);
    this.#length += bytes.length;
    let at = 0;
    while (at < bytes.length) {
      const taken = Math.min(64 - this.#filled, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + taken), this.#filled);
      this.#filled += taken;
      at += taken;
      if (this.#filled === 64) this.#mix();
    }
    return this;
  }

  /** 64 hexadecimal digits. */
  digest() {
    const length = this.#length;
    const end = new Uint8Array(64 - ((length + 8) % 64) + 8);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 4, (length * 8) >>> 0);
    view.setUint32(end.length - 8, Math.floor(length / 2 ** 29));
    this.update(end);
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #mix() {
    const [w, block, state] = [this.#words, this.#block, this.#state];
    for (let i = 0; i < 16; i++) w[i] = (block[4 * i] << 24) | (block[4 * i + 1] << 16) | (block[4 * i + 2] << 8) | block[4 * i + 3];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15];
      const y = w[i - 2];
      const early = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const late = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + early + w[i - 7] + late) | 0;
    }
    let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (let i = 0; i < 64; i++) {
      const upper = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const first = (h + upper + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const lower = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const second = (lower + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
    this.#filled = 0;
  }
}

/** SHA-256 of a text or of bytes, in hexadecimal digits. */
export const sha256 = (content) => new Sha256().update(content).digest();

// control characters, line and paragraph separators, marks that change the direction of text, lone surrogates
const HOSTILE = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/gu;

/** A text of others on one line, shown and not obeyed: `shown_text` of src/manyheads/text.py. */
export function shownText(text) {
  const named = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  return text.replace(HOSTILE, (letter) => {
    const code = letter.charCodeAt(0).toString(16);
    return named[letter] ?? (code.length < 3 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`);
  });
}

/** A text as json.dumps of Python writes it: all but the printable ASCII characters as \uXXXX. */
export function pythonString(text) {
  const short = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };
  const escape = (letter) => short[letter] ?? `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `"${text.replace(/[^ -~]|["\\]/g, escape)}"`;
}

/** Texts, whole numbers, lists and objects as json.dumps(…, sort_keys=True) of Python writes them. */
export function pythonJson(value) {
  if (typeof value === "string") return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (value === null || typeof value !== "object") return String(value);
  const points = (text) => [...text].map((letter) => letter.codePointAt(0));
  const order = (one, other) => {
    const [a, b] = [points(one), points(other)];
    for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
  };
  const names = Object.keys(value).sort(order);
  return `{${names.map((name) => `${pythonString(name)}: ${pythonJson(value[name])}`).join(", ")}}`;
}

/** A float64 as float.hex of Python writes it. */
export function pythonHex(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const digits = (bits & 0xfffffffffffffn).toString(16).padStart(13, "0");
  const sign = bits >> 63n ? "-" : "";
  if (number === 0) return `${sign}0x0.0p+0`;
  const power = exponent ? exponent - 1023 : -1022;
  return `${sign}0x${exponent ? 1 : 0}.${digits}p${power < 0 ? "-" : "+"}${Math.abs(power)}`;
}

/** The number of a text of float.hex; NaN where it is none. */
export function fromPythonHex(text) {
  const found = /^(-?)0x([01])(?:\.([0-9a-f]{1,13}))?p([+-][0-9]{1,4})$/.exec(text);
  if (!found) return NaN;
  const [, sign, whole, digits = "", power] = found;
  const size = (Number(whole) + parseInt(digits.padEnd(13, "0"), 16) / 2 ** 52) * 2 ** Number(power);
  return sign ? -size : size;
}
