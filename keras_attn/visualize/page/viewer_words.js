// Texts whose words are shaded, and pictures

function addPane() {
  const first = !panes.length, root = make("section", {className: "pane"});
  const pane = {layer: 0, head: 0, weights: null, root, which: make("h2", {className: "which"})};
  const words = make("div", {className: "both"});
  for (const side of ["keys", "queries"]) {
    const card = make("section", {className: `card ${side}`});
    if (first) card.id = side;
    pane[side] = make("div", {className: "text"});
    card.append(make("h2"), pane[side]);
    words.append(card);
    listen(pane, side);
  }
  pane.drawing = make("section", {className: "card drawing"});
  if (first) pane.drawing.id = "drawing";
  pane.drawing.append(make("h2"), make("div", {className: "scroll"}));
  root.append(pane.which, words, pane.drawing);
  $("panes").append(root);
  panes.push(pane);
  return pane;
}

function fill(pane, side, tokens, label) {
  const box = pane[side];
  box.className = "text";
  box.dir = "auto";
  box.lang = "";                         // the language of the text is not known
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
  box.replaceChildren();
  tokens.forEach(([text, joined, special], index) => {
    if (index && !joined) box.append(" ");
    const chip = make("span", {className: special ? "t special" : "t", textContent: text});
    chip.setAttribute("role", "button");
    chip.setAttribute("aria-pressed", "false");
    chip.tabIndex = index ? -1 : 0;
    if (special) chip.dir = "ltr";       // and of no say in the direction of the text
    chip.dataset.index = index;
    box.append(chip);
  });
}

function fillPane(pane) {
  const title = (side, text) => { pane[side].parentElement.querySelector("h2").textContent = text; };
  title("keys", `${part.keyName}: what is looked at`);
  title("queries", `${part.queryName}: what looks`);
  pane.picture = null;
  fill(pane, "queries", part.queries, part.queryName);
  if (part.keys) fill(pane, "keys", part.keys, part.keyName); else addPicture(pane);
  pane.root.querySelector(".both").classList.toggle("seen", !part.keys);
}

function shade(pane, side, values) {
  if (side === "keys" && pane.picture) return light(pane, values);
  const list = pane[side].children;
  for (let i = 0; i < list.length; i++) {
    const w = values ? depth(values[i]) : 0;
    list[i].style.setProperty("--w", w.toFixed(3));
    list[i].classList.toggle("lit", w > 0.3);
  }
}

function mark(pane, side, index) {       // the word that is shown; pressed if it is kept
  if (side === "keys" && pane.picture) return;
  const list = pane[side].children, kept = pinned.side === side ? pinned.index : -1;
  for (const chip of pane[side].querySelectorAll(".on, [aria-pressed='true']")) {
    chip.classList.remove("on");
    chip.setAttribute("aria-pressed", "false");
  }
  if (index >= 0) list[index].classList.add("on");
  if (kept >= 0) list[kept].setAttribute("aria-pressed", "true");
}

// The picture

function addPicture(pane) {
  const box = pane.keys;
  box.className = "picture";
  box.dir = "ltr";
  box.replaceChildren();
  for (const key of ["role", "aria-label"]) box.removeAttribute(key);
  const picture = make("img", {src: view.image, alt: "the picture"});
  const veil = make("canvas", {tabIndex: 0});
  veil.setAttribute("role", "application");
  veil.setAttribute("aria-label", "the picture: arrow keys go from region to region");
  picture.onload = () => {
    const size = 2 * Math.max(picture.clientWidth, 160);
    veil.width = size;
    veil.height = Math.round(size * picture.naturalHeight / picture.naturalWidth);
    show(shown);
  };
  box.append(picture, veil);
  Object.assign(pane, {picture, veil});
}

function light({veil}, values) {         // darkens what was not looked at
  const [rows, columns] = view.grid, small = make("canvas", {width: columns, height: rows});
  const pen = small.getContext("2d"), pixels = pen.createImageData(columns, rows);
  const most = values ? greatest(values) : 0;
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

function frameRegion({veil}, index) {
  const [rows, columns] = view.grid, w = veil.width / columns, h = veil.height / rows;
  const pen = veil.getContext("2d"), x = index % columns * w, y = Math.floor(index / columns) * h;
  for (const [color, width] of [["#000", 8], ["#fff", 4]]) {
    Object.assign(pen, {strokeStyle: color, lineWidth: width});
    pen.strokeRect(x, y, w, h);
  }
}

// What is told of it

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

function told(pane, what, values) {
  const other = what.side === "queries" ? "keys" : "queries", line = make("span");
  if (panes.length > 1) line.append(make("i", {textContent: `${nameOfHead(pane)}: `}));
  const quoted = make("b");
  quoted.append("“", name(what.side, what.index), "”");
  line.append(quoted);
  if (what.key !== undefined) {
    const weight = make("i", {textContent: " " + number(values[what.key])});
    line.append(" → ", name("keys", what.key), weight);
    return line;
  }
  if (pane.picture && what.side === "queries") {
    line.append(" looked ", ...regions(values));
    return line;
  }
  line.append(what.side === "queries" ? " looked at " : " was looked at by ");
  const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 5);
  const some = best.filter((i) => values[i] > 0);
  some.forEach((i, n) => {
    const weight = make("i", {textContent: " " + number(values[i])});
    line.append(n ? " · " : "", name(other, i), weight);
  });
  if (!some.length) line.append(what.side === "queries" ? "nothing" : "nobody");
  return line;
}
