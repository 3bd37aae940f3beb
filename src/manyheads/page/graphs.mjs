// Edge lists as src/manyheads/files/graph_files.py reads them. A wrong file is refused with one sentence.
import { Sha256, sha256, shownText } from "./hash.mjs";

export const MOST_OWN_ITEMS = 500;
const NUMBER = /^ *[+-]?[0-9]{1,18} *$/;
const WORD = /^[\p{L}_][\p{L}\p{N}_ ]*$/u;
const COLUMNS = new Set(
  ("source target src dst from to head tail subject object parent child start end key value query answer item related country capital " +
    "city word translation synonym antonym hyponym hypernym name category cause effect").split(" "),
);

/** A wrong file; its message is one sentence for the reader, in which texts of the file are shown and not obeyed. */
export class FileError extends Error {
  constructor(message) {
    super(shownText(message));
  }
}

/** A short text of the reader's own for a message. */
export const quoted = (text) => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);

/** The text of UTF-8 bytes. */
export function textOf(bytes, name) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new FileError(`${name} is not UTF-8 text.`);
  }
}

/** The records of CSV text: fields in quotation marks may hold commas, line ends and doubled quotation marks. */
function records(text, delimiter, name, before) {
  const found = [];
  let [fields, field, quotes, line] = [[], "", false, before + 1];
  let start = line;
  let closed = false; // the field was in quotation marks, which are closed
  const end = () => {
    fields.push(field);
    [field, closed] = ["", false];
  };
  const endLine = () => {
    if (fields.length || field || closed) {
      end();
      found.push({ fields, line: start });
    }
    fields = [];
  };
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === "\n") line++;
    if (quotes) {
      if (letter !== '"') field += letter;
      else if (text[at + 1] === '"') field += text[++at];
      else [quotes, closed] = [false, true];
    } else if (letter === '"' && !field && !closed) quotes = true;
    else if (letter === delimiter) end();
    else if (letter === "\n" || letter === "\r") {
      if (letter === "\r" && text[at + 1] === "\n") {
        at++;
        line++;
      }
      endLine();
      start = line;
    } else if (closed) throw new FileError(`${name}, line ${line}: text follows a closing quotation mark.`);
    else field += letter;
  }
  if (quotes) throw new FileError(`${name}, line ${start}: a quotation mark is not closed.`);
  endLine();
  return found;
}

/** Whether the first line is a heading: `first_line` of src/manyheads/files/graph_headings.py. */
function isHeading(first, rest, labels) {
  if (first[0] === "source" && first[1] === "target") return true;
  if (!rest.length || !first.every((field) => WORD.test(field))) return false;
  if (labels) return !first.some((field) => labels.includes(field)) && rest[0].every((field) => labels.includes(field));
  if (rest[0].every((field) => NUMBER.test(field))) return true;
  const others = new Set(rest.flat());
  if (first.some((field) => others.has(field))) return false;
  if (first.every((field) => COLUMNS.has(field.toLowerCase()))) return true;
  const small = (field) => /^\p{Ll}/u.test(field);
  return rest.length >= 2 && first.every(small) && ![...others].some(small);
}

/** The lines with # at the top: the number of items, their names, a checksum, the form of the fields. */
function topOf(bytes, name) {
  const top = { items: null, labels: [], json: false, lines: 0, start: 0 };
  let checked = false;
  while (bytes[top.start] === 0x23) {
    const end = bytes.indexOf(0x0a, top.start) + 1 || bytes.length;
    const comment = textOf(bytes.subarray(top.start, end), name).slice(1).trim();
    const [key, ...parts] = comment.split(": ");
    const value = parts.join(": ");
    top.start = end;
    top.lines++;
    const place = `${name}, line ${top.lines}`;
    if (key === "sha256" && checked) throw new FileError(`${place}: a second checksum: the file is damaged.`);
    if (key === "sha256") {
      checked = true;
      if (value !== sha256(bytes.subarray(end)))
        throw new FileError(`${place}: the checksum does not match the lines after it: the file is damaged, or was changed by hand (then delete this line).`);
    }
    if (key === "fields" && value === "json") top.json = true;
    if (key === "items") {
      if (!NUMBER.test(value) || Number(value) < 1) throw new FileError(`${place}: ${quoted(value)} is not a number of items.`);
      top.items = Number(value);
    }
    if (key === "item") top.labels.push(plainLabel(value, place));
  }
  return top;
}

function plainLabel(value, place) {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value));
  } catch {
    throw new FileError(`${place}: the label ${quoted(value)} has no closing quotation mark.`);
  }
}

/** The graph of an edge list: { items, relations, starts, targets, labels, name, fingerprint, permutation, regular, loops, degree, heading }. */
export function readGraph(content, name, most = MOST_OWN_ITEMS) {
  const bytes = content[0] === 0xef && content[1] === 0xbb && content[2] === 0xbf ? content.subarray(3) : content;
  const top = topOf(bytes, name);
  const text = textOf(bytes.subarray(top.start), name);
  const delimiter = /\.tsv$/i.test(name) || (!/\.csv$/i.test(name) && text.trimStart().split("\n")[0].includes("\t")) ? "\t" : ",";
  let lines = records(text, delimiter, name, top.lines);
  for (const { fields, line } of lines) {
    const count = fields.length === 1 ? "one field" : `${fields.length} fields`;
    if (fields.length !== 2) throw new FileError(`${name}, line ${line}: ${count}, not source and target separated by ${delimiter === "\t" ? "a tab" : "a comma"}.`);
  }
  if (top.json) lines = lines.map(({ fields, line }) => ({ fields: fields.map((field) => plainLabel(field, `${name}, line ${line}`)), line }));
  const known = top.labels.length ? top.labels : null;
  if (known && top.items !== null && top.items !== known.length)
    throw new FileError(`${name} says that it has ${top.items} items, but names ${known.length}.`);
  if (known && new Set(known).size < known.length) throw new FileError(`${name} gives one name to two items.`);
  const heading = lines.length > 0 && isHeading(lines[0].fields, lines.slice(1).map(({ fields }) => fields), known);
  if (heading) lines = lines.slice(1);
  if (!lines.length) throw new FileError(`${name} holds no relation.`);
  const numbered = !known && lines.slice(0, 2).some(({ fields }) => fields.every((field) => NUMBER.test(field)));
  const { ends, items, labels } = numbered ? numberedEnds(lines, top.items, name) : labelledEnds(lines, known, name);
  if (!numbered && top.items !== null && top.items !== items)
    throw new FileError(`${name} says that it has ${top.items} items, but there are ${items} labels.`);
  if (items > most) throw new FileError(`${name} has ${items.toLocaleString("en")} items: the page takes up to ${most}, the package takes more.`);
  if (items < 2) throw new FileError(`${name} has one item: a graph needs two.`);
  return { ...graphOf(items, ends, labels, { name, lines }), heading };
}

function numberedEnds(lines, stated, name) {
  let largest = 0;
  const ends = lines.map(({ fields, line }) => fields.map((field) => {
    if (!NUMBER.test(field)) throw new FileError(`${name}, line ${line}: ${quoted(field)} is not an item number, but other lines have item numbers.`);
    const item = Number(field);
    if (item < 0 || (stated !== null && item >= stated)) throw new FileError(`${name}, line ${line}: item ${item} is ${stated === null ? "below 0" : `out of range 0 … ${stated - 1}`}.`);
    largest = Math.max(largest, item);
    return item;
  }));
  return { ends, items: stated ?? largest + 1, labels: null };
}

function labelledEnds(lines, known, name) {
  const numbers = new Map((known ?? []).map((label, item) => [label, item]));
  const ends = lines.map(({ fields, line }) => fields.map((field) => {
    if (!numbers.has(field)) {
      if (known) throw new FileError(`${name}, line ${line}: unknown label ${quoted(field)}.`);
      if (!field || field !== field.trim()) throw new FileError(`${name}, line ${line}: the label ${quoted(field)} is empty or has blanks around it.`);
      numbers.set(field, numbers.size);
    }
    return numbers.get(field);
  }));
  return { ends, items: numbers.size, labels: [...numbers.keys()] };
}

function graphOf(items, ends, labels, { name, lines }) {
  const order = ends.map((_, n) => n).sort((a, b) => ends[a][0] - ends[b][0] || ends[a][1] - ends[b][1] || a - b);
  for (let n = 1; n < order.length; n++) {
    const [before, now] = [ends[order[n - 1]], ends[order[n]]];
    if (before[0] === now[0] && before[1] === now[1]) {
      const { fields, line } = lines[order[n]];
      throw new FileError(`${name}, line ${line}: the relation ${quoted(fields[0])} → ${quoted(fields[1])} is given a second time.`);
    }
  }
  const starts = new Int32Array(items + 1);
  const targets = Int32Array.from(order, (n) => ends[n][1]);
  const into = new Int32Array(items);
  for (const [source, target] of ends) {
    starts[source + 1]++;
    into[target]++;
  }
  const out = starts.slice(1);
  for (let i = 0; i < items; i++) starts[i + 1] += starts[i];
  const numbers = BigInt64Array.from([items, ...order.map((n) => ends[n][0]), ...targets], BigInt);
  const degree = Math.max(...out);
  const regular = [...out, ...into].every((count) => count === degree);
  return {
    items, relations: ends.length, starts, targets, labels, name, fingerprint: new Sha256().update(numbers).digest().slice(0, 16),
    permutation: regular && degree === 1, regular, degree, loops: ends.some(([source, target]) => source === target),
  };
}
