// Weights: decoded when they are first looked at, and mixed for what is chosen

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}) => Object.assign(document.createElement(tag), props);
let view, part;
let panes = [];                          // one head, or two beside each other
let form = "words", off = false;
let pinned = {side: "queries", index: 0};
let shown = pinned, lastQuery = 0;

async function load(p) {
  if (p.bytes) return;
  for (const v of data.views) for (const other of v.parts) other.bytes = null;
  const raw = atob(p.weights), packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const of = data.views.find((v) => v.parts.includes(p));
  p.T = p.queries.length;
  p.S = p.keys ? p.keys.length : of.grid[0] * of.grid[1];
  p.first = [];                          // number of the first head of each layer
  p.heads.reduce((sum, n, i) => { p.first[i] = sum; return sum + n; }, 0);
  p.weightOf = Float32Array.from({length: 256}, (_, i) => p.most * (i / p.levels) ** 2);
  p.bytes = bytes;
}

function headsOf(layer, head) {          // the numbers of the chosen heads, with their shares
  const {heads, first} = part;
  if (layer >= 0 && head >= 0) return [[first[layer] + head, 1]];
  const from = layer < 0 ? 0 : layer, to = layer < 0 ? heads.length : layer + 1, all = [];
  for (let l = from; l < to; l++) for (let h = 0; h < heads[l]; h++)
    all.push([first[l] + h, 1 / heads[l] / (to - from)]);
  return all;
}

function mix(layer, head) {              // Float32Array T x S of a head, or of the mean
  const {T, S, bytes, weightOf} = part, weights = new Float32Array(T * S);
  for (const [number, share] of headsOf(layer, head)) {
    let at = number * S * T;             // column by column
    for (let s = 0; s < S; s++) for (let t = 0; t < T; t++) {
      const code = bytes[at++];
      if (code) weights[t * S + s] += weightOf[code] * share;
    }
  }
  return weights;
}

function row(weights, {side, index}) {   // what a query looked at, or who looked at a key
  const {T, S} = part;
  if (side === "queries") return weights.subarray(index * S, index * S + S);
  const column = new Float32Array(T);
  for (let t = 0; t < T; t++) column[t] = weights[t * S + index];
  return column;
}

const greatest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
const depth = (w) => Math.sqrt(Math.min(Math.max(w, 0), 1));  // the share of the deepest colour

function number(w) {
  if (w >= 0.0995) return w.toFixed(2);
  return w >= 0.001 ? w.toFixed(3) : w > 0 ? "<0.001" : "0";
}

function textOf(side, index) {
  const tokens = side === "queries" ? part.queries : part.keys;
  if (tokens) return tokens[index][0];
  const columns = view.grid[1];
  return `row ${Math.floor(index / columns)}, column ${index % columns}`;
}

const name = (side, index) => make("bdi", {textContent: textOf(side, index), lang: ""});

function nameOfHead({layer, head}) {
  if (layer < 0) return "mean of all heads";
  if (part.heads[layer] < 2) return `layer ${layer}`;
  return head < 0 ? `layer ${layer}, mean of its heads` : `layer ${layer}, head ${head}`;
}
