const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}) => Object.assign(document.createElement(tag), props);
const textOf = (id) => $(id).querySelector(".text");
const chips = {queries: textOf("queries"), keys: textOf("keys")};
let view, part, layer = -1, head = -1;   // -1: the mean
let weights;                             // Float32Array T x S of the chosen layer and head
let pinned = {side: "queries", index: 0};
let shown = pinned, lastQuery = 0;
let picture = null, veil = null;

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

function load(p) {                       // decodes a part when it is first looked at
  if (p.bytes) return;
  p.bytes = bytes(p.weights);
  p.rowMost = new Float32Array(bytes(p.greatest).buffer);
  p.T = p.queries.length;
  p.S = p.keys ? p.keys.length : view.grid[0] * view.grid[1];
  p.first = [];                          // number of the first head of each layer
  p.heads.reduce((sum, n, i) => { p.first[i] = sum; return sum + n; }, 0);
}

function chosenHeads() {
  const {heads, first} = part;
  if (layer >= 0 && head >= 0) return [first[layer] + head];
  const from = layer < 0 ? 0 : layer, to = layer < 0 ? heads.length : layer + 1, all = [];
  for (let l = from; l < to; l++) for (let h = 0; h < heads[l]; h++)
    all.push([first[l] + h, 1 / heads[l] / (to - from)]);
  return all.length === 1 ? [all[0][0]] : all;
}

function mix() {                         // the weights of the chosen layer and head, or their mean
  const {T, S} = part;
  weights = new Float32Array(T * S);
  for (const chosen of chosenHeads()) {
    const [number, share] = Array.isArray(chosen) ? chosen : [chosen, 1];
    for (let t = 0; t < T; t++) {
      const scale = part.rowMost[number * T + t] * share / 255;
      const from = (number * T + t) * S, to = t * S;
      if (scale) for (let s = 0; s < S; s++) weights[to + s] += part.bytes[from + s] * scale;
    }
  }
}

function row({side, index}) {            // what a query looked at, or who looked at a key
  const {T, S} = part;
  if (side === "queries") return weights.subarray(index * S, index * S + S);
  const column = new Float32Array(T);
  for (let t = 0; t < T; t++) column[t] = weights[t * S + index];
  return column;
}

// Words

function fill(side, tokens, label) {
  const box = chips[side];
  box.className = "text";
  box.dir = "auto";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
  box.replaceChildren();
  tokens.forEach(([text, joined, special], index) => {
    if (index && !joined) box.append(" ");
    const chip = make("span", {className: special ? "t special" : "t", textContent: text});
    chip.setAttribute("role", "button");
    chip.tabIndex = index ? -1 : 0;
    if (special) chip.dir = "ltr";       // and of no say in the direction of the text
    chip.dataset.index = index;
    box.append(chip);
  });
}

function shade(side, values, most) {
  if (side === "keys" && picture) return light(values, most);
  const list = chips[side].children;
  for (let i = 0; i < list.length; i++) {
    const w = most > 0 && values ? values[i] / most : 0;
    list[i].style.setProperty("--w", w.toFixed(3));
    list[i].classList.toggle("lit", w > 0.3);
  }
}

function mark(side, index) {
  for (const chip of chips[side].children) chip.classList.remove("on");
  const chip = index >= 0 && !(side === "keys" && picture) && chips[side].children[index];
  if (chip) chip.classList.add("on");
}

// The picture

function addPicture() {
  const box = chips.keys;
  box.className = "picture";
  box.dir = "ltr";
  box.replaceChildren();
  for (const name of ["role", "aria-label"]) box.removeAttribute(name);
  picture = make("img", {src: view.image, alt: "the picture"});
  veil = make("canvas", {tabIndex: 0});
  veil.setAttribute("role", "img");
  picture.onload = () => {
    const size = 2 * Math.max(picture.clientWidth, 160);
    veil.width = size;
    veil.height = Math.round(size * picture.naturalHeight / picture.naturalWidth);
    show(shown);
  };
  box.append(picture, veil);
}

function light(values, most) {           // darkens what was not looked at
  const [rows, columns] = view.grid, small = make("canvas", {width: columns, height: rows});
  const pen = small.getContext("2d"), pixels = pen.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const w = most > 0 ? values[i] / most : 0, dark = 0.7 * (1 - w), glow = 0.15 * w;
    pixels.data.fill(values ? 255 * glow / (dark + glow) : 0, 4 * i, 4 * i + 3);
    pixels.data[4 * i + 3] = values ? 255 * (dark + glow) : 0;
  }
  pen.putImageData(pixels, 0, 0);
  const over = veil.getContext("2d");
  over.clearRect(0, 0, veil.width, veil.height);
  over.imageSmoothingQuality = "high";
  over.drawImage(small, 0, 0, veil.width, veil.height);
}

function frameRegion(index) {
  const [rows, columns] = view.grid, w = veil.width / columns, h = veil.height / rows;
  const pen = veil.getContext("2d"), x = index % columns * w, y = Math.floor(index / columns) * h;
  for (const [color, width] of [["#000", 8], ["#fff", 4]]) {
    Object.assign(pen, {strokeStyle: color, lineWidth: width});
    pen.strokeRect(x, y, w, h);
  }
}

// Showing

function number(w) {
  if (w >= 0.0995) return w.toFixed(2);
  return w >= 0.001 ? w.toFixed(3) : w > 0 ? "<0.001" : "0";
}

function name(side, index) {
  const tokens = side === "queries" ? part.queries : part.keys;
  if (tokens) return make("bdi", {textContent: tokens[index][0]});
  const columns = view.grid[1];
  const place = `row ${Math.floor(index / columns)}, column ${index % columns}`;
  return make("bdi", {textContent: place});
}

function regions(values) {
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]);
  const half = values.reduce((a, b) => a + b, 0) / 2;
  let count = 0, sum = 0;
  while (count < order.length && sum < half) sum += values[order[count++]];
  if (!count) return ["nowhere"];
  const most = make("i", {textContent: " " + number(values[order[0]])});
  return ["most at ", name("keys", order[0]), most, ` · half of its attention is in ${count} of ` +
    `${values.length} regions`];
}

function tell({side, index}, values) {
  const other = side === "queries" ? "keys" : "queries", line = [];
  const quoted = make("b");
  quoted.append("“", name(side, index), "”");
  if (picture && side === "queries") {
    $("status").replaceChildren(quoted, " looked ", ...regions(values));
    return;
  }
  line.push(quoted, side === "queries" ? " looked at " : " was looked at by ");
  const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 5);
  const some = best.filter((i) => values[i] > 0);
  some.forEach((i, n) => {
    const weight = make("i", {textContent: " " + number(values[i])});
    line.push(n ? " · " : "", name(other, i), weight);
  });
  if (!some.length) line.push(side === "queries" ? "nothing" : "nobody");
  $("status").replaceChildren(...line);
}

function show(what) {
  shown = what;
  if (what.side === "queries") lastQuery = what.index;
  const values = row(what), most = values.reduce((a, b) => Math.max(a, b), 0);
  const other = what.side === "queries" ? "keys" : "queries";
  mark(other, -1);
  mark(what.side, what.index);
  shade(what.side, null, 0);
  shade(other, values, most);
  if (picture && what.side === "keys") frameRegion(what.index);
  tell(what, values);
  $("most").textContent = number(most);
  const seen = picture && what.side === "queries";
  document.querySelector(".ramp").classList.toggle("seen", Boolean(seen));
  frameMatrix();
  if (picture && what.side === "queries") drawAll();
}

function pin(what) {
  pinned = what;
  show(what);
}
