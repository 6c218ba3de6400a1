// Whole heads

function color() {
  return getComputedStyle(document.documentElement).getPropertyValue("--map").trim().split(" ");
}

function draw(canvas, values, rows, columns, rgb, scale) {
  Object.assign(canvas, {width: columns, height: rows});
  const pen = canvas.getContext("2d"), pixels = pen.createImageData(columns, rows);
  const out = pixels.data;
  for (let i = 0, o = 0; i < rows * columns; i++, o += 4) {
    out[o] = rgb[0]; out[o + 1] = rgb[1]; out[o + 2] = rgb[2];
    out[o + 3] = 255 * scale(values[i], i);
  }
  pen.putImageData(pixels, 0, 0);
}

function drawMatrix() {
  const {T, S} = part, useful = !picture && T > 1;
  $("matrix").hidden = !useful;
  if (!useful) return;
  const canvas = $("matrix").querySelector("canvas");
  $("matrix").querySelector("h2").textContent =
    `Rows: ${part.queryName}, columns: ${part.keyName}`;
  draw(canvas, weights, T, S, color(), (w) => Math.sqrt(Math.min(w, 1)));
  const cell = Math.max(2, Math.min(22, 420 / S, 420 / T));
  canvas.parentElement.style.width = `${S * cell}px`;
}

function frameMatrix() {
  const line = $("matrix").querySelector("i").style, wide = shown.side === "queries";
  const from = `${100 * shown.index / (wide ? part.T : part.S)}%`;
  const size = `${100 / (wide ? part.T : part.S)}%`;
  line.top = wide ? from : 0;
  line.height = wide ? size : "100%";
  line.left = wide ? 0 : from;
  line.width = wide ? "100%" : size;
}

let thumbnails = [];

function addAll() {
  const {heads} = part, total = heads.reduce((a, b) => a + b, 0), most = Math.max(...heads);
  $("all").hidden = total < 2;
  thumbnails = [];
  const box = $("all").querySelector(".grid");
  box.replaceChildren();
  if (total < 2) return;
  $("all").querySelector("h2").textContent = picture
    ? "All heads, for this word: click to choose one"
    : "All heads: click to choose one";
  const size = Math.max(34, Math.min(110, 560 / most));
  box.style.gridTemplateColumns = `24px repeat(${most}, minmax(20px, ${size}px))`;
  box.append(make("b"));
  for (let h = 0; h < most; h++) box.append(make("b", {textContent: h}));
  heads.forEach((count, l) => {
    box.append(make("b", {textContent: l}));
    for (let h = 0; h < most; h++) {
      const canvas = h < count ? make("canvas", {title: `layer ${l}, head ${h}`}) : make("b");
      box.append(canvas);
      if (h < count) {
        canvas.onclick = () => choose(l, h);
        if (!picture && part.T < 64) canvas.className = "coarse";
        thumbnails.push({canvas, l, h, number: part.first[l] + h});
      }
    }
  });
  drawAll();
}

function drawAll() {
  const {T, S} = part, rgb = thumbnails.length ? color() : null;
  for (const {canvas, number} of thumbnails) {
    if (picture) {
      const at = number * T + lastQuery;
      draw(canvas, part.bytes.subarray(at * S, at * S + S), ...view.grid, rgb, (b) => b / 255);
      continue;
    }
    const roots = new Float32Array(T);
    for (let t = 0; t < T; t++) roots[t] = Math.min(part.rowMost[number * T + t], 1) / 255;
    const values = part.bytes.subarray(number * T * S, (number + 1) * T * S);
    draw(canvas, values, T, S, rgb, (b, i) => b && Math.sqrt(b * roots[Math.floor(i / S)]));
  }
}

// Choosing

function radios(id, names, value, act, off = () => false) {
  const box = $(id), focused = box.contains(document.activeElement);
  for (const old of box.querySelectorAll("label")) old.remove();
  box.hidden = names.length < 2;
  for (const [text, key] of names) {
    const label = make("label", {className: "pick"});
    const input = make("input", {type: "radio", name: id, value: key});
    input.checked = key === value;
    input.disabled = off(key);
    input.onchange = () => act(key);
    label.append(input, make("span", {textContent: text}));
    box.append(label);
    if (focused && input.checked) input.focus();  // where the keys go on
  }
}

const withMean = (count) =>
  count < 2 ? [["0", 0]] : [["mean", -1], ...Array.from({length: count}, (_, i) => [`${i}`, i])];

function choose(l, h) {
  const {heads} = part;
  layer = heads.length < 2 ? 0 : Math.max(-1, Math.min(l, heads.length - 1));
  const count = layer < 0 ? Math.max(...heads) : heads[layer];
  head = layer < 0 || count < 2 ? (count < 2 && layer >= 0 ? 0 : -1) : Math.min(h, count - 1);
  radios("layers", withMean(heads.length), layer, (l) => choose(l, head));
  radios("heads", withMean(count), head, (h) => choose(layer, h), (key) => layer < 0 && key >= 0);
  for (const {canvas, l, h} of thumbnails)
    canvas.classList.toggle("on", l === layer && h === head);
  mix();
  drawMatrix();
  show(shown);
}

function choosePart(index, keep) {
  part = view.parts[index];
  load(part);
  picture = null;
  radios("parts", view.parts.map((p, i) => [p.name, i]), index, (i) => choosePart(i, true));
  $("parts").hidden = false;
  $("keys").querySelector("h2").textContent = `${part.keyName}: what is looked at`;
  $("queries").querySelector("h2").textContent = `${part.queryName}: what looks`;
  fill("queries", part.queries, part.queryName);
  if (part.keys) fill("keys", part.keys, part.keyName); else addPicture();
  $("stage").classList.toggle("seen", !part.keys);
  $("hint").textContent = part.keys
    ? "Point at a word below to see where it looked; above, to see who looked at it. A click " +
      "keeps it, arrow keys go on."
    : "Point at a word to see where it looked; at the picture, to see who looked there. A click " +
      "keeps it, arrow keys go on.";
  const index0 = keep && pinned.side === "queries" ? Math.min(pinned.index, part.T - 1) : 0;
  pinned = shown = {side: "queries", index: index0};
  addAll();
  choose(layer, head);
}

function chooseView(index) {
  view = data.views[index];
  layer = view.parts[0].heads.length - 1;
  head = -1;
  choosePart(0, false);
}

// What the pointer and the keys do

const place = (event) => {
  const chip = event.target.closest(".t");
  return chip ? Number(chip.dataset.index) : -1;
};

function region(event) {
  const box = veil.getBoundingClientRect(), [rows, columns] = view.grid;
  const at = (x, n) => Math.max(0, Math.min(n - 1, Math.floor(x * n)));
  return at((event.clientY - box.top) / box.height, rows) * columns +
    at((event.clientX - box.left) / box.width, columns);
}

for (const side of ["queries", "keys"]) {
  const box = chips[side], index = (event) =>
    side === "keys" && picture ? region(event) : place(event);
  const preview = (event) => {
    const i = index(event);
    if (event.pointerType !== "touch" && i >= 0 && !(shown.side === side && shown.index === i))
      show({side, index: i});
  };
  box.addEventListener("pointermove", preview);
  box.addEventListener("pointerover", preview);
  box.addEventListener("pointerleave", () => { if (shown !== pinned) show(pinned); });
  box.addEventListener("click", (event) => {
    const i = index(event);
    if (i >= 0) pin({side, index: i});
  });
  box.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible") && place(event) >= 0)
      pin({side, index: place(event)});
  });
  box.addEventListener("keydown", (event) => {
    const seen = side === "keys" && picture;
    const count = side === "keys" ? part.S : part.T, wide = seen ? view.grid[1] : 0;
    const now = seen ? (pinned.side === "keys" ? pinned.index : 0) : place(event);
    const forward = getComputedStyle(box).direction === "rtl" ? -1 : 1;
    const steps = {ArrowRight: forward, ArrowLeft: -forward, ArrowDown: wide, ArrowUp: -wide,
      Home: -now, End: count - 1 - now, Enter: 0, " ": 0};
    if (!(event.key in steps) || now < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(count - 1, now + steps[event.key]));
    if (!seen) {
      box.children[now].tabIndex = -1;
      box.children[to].tabIndex = 0;
      box.children[to].focus();
    }
    pin({side, index: to});
  });
}

const matrix = $("matrix").querySelector("canvas");
matrix.addEventListener("pointermove", (event) => {
  const box = matrix.getBoundingClientRect(), {T, S} = part;
  const t = Math.max(0, Math.min(T - 1, Math.floor((event.clientY - box.top) / box.height * T)));
  const s = Math.max(0, Math.min(S - 1, Math.floor((event.clientX - box.left) / box.width * S)));
  show({side: "queries", index: t});
  const weight = make("i", {textContent: " " + number(weights[t * S + s])}), line = make("b");
  line.append("“", name("queries", t), "” → ", name("keys", s));
  $("status").replaceChildren(line, weight);
});
matrix.addEventListener("pointerleave", () => show(pinned));
matrix.addEventListener("click", () => pin(shown));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawMatrix();
  drawAll();
});
data.views.forEach((v, i) => $("views").append(make("option", {textContent: v.title, value: i})));
$("chooser").hidden = data.views.length < 2;
$("views").onchange = () => chooseView(Number($("views").value));
chooseView(0);
