// Layers and embeddings in files: safetensors as src/manyheads/files/layer_files.py has them, and .npy. Content is only data.
import { FileError, quoted, textOf } from "./graphs.mjs";
import { Sha256, fromPythonHex, pythonHex, pythonJson } from "./hash.mjs";

export const MOST_LAYER_ITEMS = 2000;
const MOST_HEADS = 1024; // each has a row in a table of the page, and scores of its own
const CHECKSUM = "manyheads.sha256";
const WIDTHS = { F16: 2, BF16: 2, F32: 4, F64: 8 };
const VERDICTS = ["holds", "refuted", "not proved"];
const RULES = ["max", "softmax", "sum", "logsumexp"];

/** The half-precision number of 16 bits. */
function half(bits) {
  const size = bits & 0x7c00 ? (1 + (bits & 0x3ff) / 1024) * 2 ** (((bits >> 10) & 31) - 15) : (bits & 0x3ff) * 2 ** -24;
  const value = (bits & 0x7c00) === 0x7c00 ? (bits & 0x3ff ? NaN : Infinity) : size;
  return bits & 0x8000 ? -value : value;
}

/** Little-endian numbers of one type as float64. */
function numbers(bytes, dtype) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const word = new DataView(new ArrayBuffer(4));
  const take = {
    F64: (at) => view.getFloat64(at, true),
    F32: (at) => view.getFloat32(at, true),
    F16: (at) => half(view.getUint16(at, true)),
    BF16: (at) => {
      word.setUint16(0, view.getUint16(at, true)); // the upper half of a float32
      return word.getFloat32(0);
    },
  }[dtype];
  const width = WIDTHS[dtype];
  return Float64Array.from({ length: bytes.byteLength / width }, (_, n) => take(n * width));
}

/** The tensors and the metadata of a safetensors file. */
export function readTensors(bytes, name) {
  const damaged = new FileError(`${name} is not a safetensors file, or is truncated or damaged.`);
  if (bytes.length < 10) throw damaged;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length < 2n || length > BigInt(bytes.length - 8)) throw damaged;
  const data = bytes.subarray(8 + Number(length));
  let header;
  try {
    header = JSON.parse(textOf(bytes.subarray(8, 8 + Number(length)), name));
  } catch {
    throw damaged;
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) throw damaged;
  const metadata = header.__metadata__ ?? {};
  if (typeof metadata !== "object" || Object.values(metadata).some((value) => typeof value !== "string")) throw damaged;
  const tensors = new Map();
  let end = 0;
  const counts = (list) => Array.isArray(list) && list.every((count) => Number.isInteger(count) && count >= 0);
  const places = Object.entries(header).filter(([key]) => key !== "__metadata__");
  if (places.some(([, place]) => typeof place?.dtype !== "string" || !counts(place.shape) || !counts(place.data_offsets) || place.data_offsets.length !== 2)) throw damaged;
  places.sort(([, one], [, other]) => one.data_offsets[0] - other.data_offsets[0] || one.data_offsets[1] - other.data_offsets[1]);
  for (const [key, { dtype, shape, data_offsets: [start, stop] }] of places) {
    const size = shape.reduce((product, side) => product * side, 1);
    if (start !== end || stop < start || (WIDTHS[dtype] && stop - start !== size * WIDTHS[dtype])) throw damaged;
    tensors.set(key, { dtype, shape, data: data.subarray(start, stop) });
    end = stop;
  }
  if (end !== data.length) throw damaged;
  return { name, tensors, metadata };
}

function checksum(tensors, metadata) {
  const text = Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== CHECKSUM));
  const shapes = Object.fromEntries([...tensors].map(([key, { dtype, shape }]) => [key, [dtype, shape]]));
  const hash = new Sha256().update(pythonJson([text, shapes]));
  for (const key of [...tensors.keys()].sort()) hash.update(tensors.get(key).data);
  return hash.digest();
}

function floats({ tensors, name }, key, sides) {
  const tensor = tensors.get(key);
  if (!tensor) throw new FileError(`${name} has no tensor '${key}'.`);
  if (!WIDTHS[tensor.dtype]) throw new FileError(`${name}: tensor '${key}' holds ${quoted(tensor.dtype)} values, not floating-point numbers.`);
  if (tensor.shape.length !== sides || tensor.shape.includes(0)) throw new FileError(`${name}: tensor '${key}' has ${tensor.shape.length} sides, not ${sides}, or is empty.`);
  const values = numbers(tensor.data, tensor.dtype);
  if (!values.every(Number.isFinite)) throw new FileError(`${name}: tensor '${key}' holds NaN or infinite values.`);
  return { values, shape: tensor.shape };
}

/** A layer, the rows of its file where it has some, its labels and what its file says of a certificate. */
export function readLayer(file) {
  const { metadata, name } = file;
  if (metadata.version !== "1") throw new FileError(`${name} has layer format ${quoted(metadata.version ?? "")}, and this page reads 1.`);
  if (metadata[CHECKSUM] !== checksum(file.tensors, metadata)) throw new FileError(`${name} is damaged: its content does not match its checksum.`);
  const [query, key] = ["query", "key"].map((part) => floats(file, part, 3));
  const [heads, d_model, key_width] = query.shape;
  const [key_heads] = key.shape;
  if (key.shape[1] !== d_model || key.shape[2] !== key_width || heads % key_heads)
    throw new FileError(`${name} has query weights of shape ${query.shape.join(" × ")} and key weights of shape ${key.shape.join(" × ")}, which do not go together.`);
  if (heads > MOST_HEADS) throw new FileError(`${name} has ${heads} heads: the page takes up to ${MOST_HEADS}.`);
  const threshold = fromPythonHex(metadata.threshold ?? "");
  if (!Number.isFinite(threshold)) throw new FileError(`${name} has no threshold.`);
  if (!RULES.includes(metadata.rule)) throw new FileError(`${name} holds a layer with the unknown rule ${quoted(metadata.rule ?? "")}.`);
  let [labels, record] = [null, null];
  try {
    labels = metadata.labels === undefined ? null : JSON.parse(metadata.labels);
    record = metadata.certificate === undefined ? null : JSON.parse(metadata.certificate);
  } catch {
    throw new FileError(`${name} has labels or a certificate that are not JSON.`);
  }
  if (labels !== null && !(Array.isArray(labels) && labels.every((label) => typeof label === "string")))
    throw new FileError(`${name} has labels that are not a list of texts.`);
  if (record !== null && !isCertificate(record.certificate)) throw new FileError(`${name} has a certificate that makes no sense.`);
  const layer = { heads, key_heads, d_model, key_width, rule: metadata.rule, query: query.values, key: key.values, threshold };
  const rows = file.tensors.has("embedding") ? rowsOf(floats(file, "embedding", 2), name) : null;
  return { layer, labels, record, rows, name };
}

/** Whether a certificate of a file has a verdict, two counts, and the lengths of its contexts or null. */
function isCertificate(told) {
  const { verdict, items, relations, context_lengths: lengths = null } = told ?? {};
  const counts = [items, relations, ...(Array.isArray(lengths) ? lengths : [])];
  return VERDICTS.includes(verdict) && counts.every(Number.isInteger) && (lengths === null || lengths.length === 2);
}

function rowsOf({ values, shape: [items, d_model] }, name) {
  const rows = Float32Array.from(values);
  if (!rows.every(Number.isFinite)) throw new FileError(`${name} holds numbers beyond the range of float32.`);
  return { items, d_model, rows, name, fingerprint: rowsFingerprint(rows, items, d_model) };
}

/** `Embedding.fingerprint` of the package. */
export function rowsFingerprint(rows, items, d_model) {
  return new Sha256().update(BigInt64Array.of(BigInt(items), BigInt(d_model))).update(rows).digest().slice(0, 16);
}

/** The rows of an .npy file. */
export function readNpy(bytes, name) {
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (bytes.length < 12 || magic.some((byte, n) => bytes[n] !== byte)) throw new FileError(`${name} is not an .npy file.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const wide = bytes[6] > 1;
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder("latin1").decode(bytes.subarray(wide ? 12 : 10, start));
  const dtype = { "<f2": "F16", "<f4": "F32", "<f8": "F64" }[/'descr': '([^']*)'/.exec(header)?.[1]];
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((side) => side.trim()).map((side) => (/^ *[0-9]{1,9} *$/.test(side) ? Number(side) : NaN));
  if (!dtype) throw new FileError(`${name} does not hold floating-point numbers.`);
  if (/'fortran_order': True/.test(header)) throw new FileError(`${name} has its columns first: write it with numpy.ascontiguousarray.`);
  if (shape.length !== 2 || !shape.every((side) => Number.isInteger(side) && side > 0)) throw new FileError(`${name} does not hold rows (items, d_model).`);
  const data = bytes.subarray(start);
  if (data.length !== shape[0] * shape[1] * WIDTHS[dtype]) throw new FileError(`${name} is truncated or damaged.`);
  const values = numbers(data, dtype);
  if (!values.every(Number.isFinite)) throw new FileError(`${name} holds NaN or infinite values.`);
  return rowsOf({ values, shape }, name);
}

/** The rows of a safetensors file that is no layer: of its tensor `embedding`, or of its only tensor. */
export function readEmbedding(file) {
  const key = file.tensors.has("embedding") ? "embedding" : [...file.tensors.keys()][0];
  if (file.tensors.size !== 1 && key !== "embedding") throw new FileError(`${file.name} is neither a layer that manyheads wrote nor one table of rows.`);
  if (file.metadata[CHECKSUM] !== undefined && file.metadata[CHECKSUM] !== checksum(file.tensors, file.metadata))
    throw new FileError(`${file.name} is damaged: its content does not match its checksum.`);
  return rowsOf(floats(file, key, 2), file.name);
}

/** `Layer.fingerprint` of the package. */
export function layerFingerprint({ rule, threshold, query, key, heads, key_heads, d_model, key_width }) {
  const hash = new Sha256().update(`${rule} ${pythonHex(threshold)}`);
  for (const [weights, count] of [[query, heads], [key, key_heads]]) hash.update(` (${count}, ${d_model}, ${key_width})`).update(weights);
  return hash.digest().slice(0, 16);
}

/** The bytes of a layer's file with the rows of its items: `pack_layer` of the package. */
export function packLayer({ layer, problem, certificate, provenance, software }) {
  const { heads, key_heads, d_model, key_width } = layer;
  const narrow = [layer.query, layer.key].every((weights) => weights.every((weight) => Math.fround(weight) === weight));
  const stored = (weights) => (narrow ? Float32Array.from(weights) : weights);
  const tensor = (array, shape) => ({ dtype: array.BYTES_PER_ELEMENT === 8 ? "F64" : "F32", shape, data: new Uint8Array(array.buffer, array.byteOffset, array.byteLength) });
  const tensors = new Map([
    ["key", tensor(stored(layer.key), [key_heads, d_model, key_width])],
    ["query", tensor(stored(layer.query), [heads, d_model, key_width])],
    ["embedding", tensor(problem.rows, [problem.items, d_model])],
  ]);
  const metadata = {
    format: "manyheads layer", version: "1", rule: layer.rule, threshold: pythonHex(layer.threshold),
    provenance: JSON.stringify(provenance), software,
  };
  if (problem.labels) metadata.labels = JSON.stringify(problem.labels);
  if (certificate) {
    const { verdict, margin, rounding, window, missed, false_pairs, open_pairs, threshold } = certificate;
    const finite = (number) => (Number.isFinite(number) ? number : null);
    const told = {
      verdict, rule: layer.rule, items: problem.items, relations: problem.targets.length, d_model, heads, key_heads, key_width, threshold,
      context_lengths: null, margin: finite(margin), rounding: finite(rounding), window: window.map(finite), missed, false_pairs, open_pairs,
    };
    metadata.certificate = JSON.stringify({
      weights: layerFingerprint(layer), graph: problem.fingerprint, embedding: rowsFingerprint(problem.rows, problem.items, d_model), certificate: told,
    });
  }
  metadata[CHECKSUM] = checksum(tensors, metadata);
  const header = { __metadata__: metadata };
  let at = 0;
  for (const [name, { dtype, shape, data }] of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + data.length] };
    at += data.length;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padded = Math.ceil(text.length / 8) * 8;
  const bytes = new Uint8Array(8 + padded + at).fill(0x20, 8, 8 + padded);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true);
  bytes.set(text, 8);
  for (const { data } of tensors.values()) {
    bytes.set(data, bytes.length - at);
    at -= data.length;
  }
  return bytes;
}
