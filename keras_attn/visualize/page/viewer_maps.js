// Matrices, lines between words, and small maps of all heads

const drawn = (tag, attributes = {}, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};
const ruler = make("canvas").getContext("2d");

function clipped(text, width) {          // text as wide as there is room for it
  ruler.font = "12px system-ui, sans-serif";
  if (ruler.measureText(text).width <= width) return text;
  let count = text.length;
  while (count > 1 && ruler.measureText(text.slice(0, count) + "…").width > width) count--;
  return text.slice(0, count) + "…";
}

function widest(tokens, most) {
  ruler.font = "12px system-ui, sans-serif";
  return Math.min(most, Math.ceil(greatest(tokens.map(([t]) => ruler.measureText(t).width))) + 8);
}

function color() {
  return getComputedStyle(document.documentElement).getPropertyValue("--map").trim().split(" ");
}

function paint(canvas, rows, columns, rgb, alpha) {
  Object.assign(canvas, {width: columns, height: rows});
  const pen = canvas.getContext("2d"), pixels = pen.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    pixels.data.set(rgb, 4 * i);
    pixels.data[4 * i + 3] = 255 * alpha(i);
  }
  pen.putImageData(pixels, 0, 0);
  return canvas;
}

function drawMatrix(pane) {
  const {T, S} = part, {weights} = pane, long = Math.max(T, S) > 64;
  const scroll = pane.drawing.querySelector(".scroll");
  const left = long ? 2 : widest(part.queries, 130), top = long ? 2 : widest(part.keys, 130);
  const cell = long ? Math.max(2, Math.min(8, Math.floor(640 / Math.max(T, S))))
    : Math.max(13, Math.min(18, Math.floor((scroll.clientWidth - left - 2) / S)));
  const size = {width: left + S * cell + 2, height: top + T * cell + 2};
  const svg = drawn("svg", {...size, viewBox: `0 0 ${size.width} ${size.height}`, tabindex: 0,
    role: "application", class: "drawn matrix",
    "aria-label": `Matrix of weights: rows are ${part.queryName}, columns are ${part.keyName}. ` +
      "Arrow keys go from weight to weight."});
  const cells = paint(make("canvas"), T, S, color(), (i) => depth(weights[i]));
  svg.append(drawn("image", {x: left, y: top, width: S * cell, height: T * cell,
    preserveAspectRatio: "none", href: cells.toDataURL(), class: "cells"}));
  svg.append(drawn("rect", {x: left, y: top, width: S * cell, height: T * cell, class: "edge"}));
  if (!long) {
    part.queries.forEach(([text], t) => svg.append(drawn("text", {x: left - 5,
      y: top + (t + 0.5) * cell + 4, "text-anchor": "end", "data-row": t}, clipped(text, left - 6))));
    part.keys.forEach(([text], s) => svg.append(drawn("text", {"data-column": s,
      transform: `translate(${left + (s + 0.5) * cell + 4} ${top - 5}) rotate(-90)`},
      clipped(text, top - 6))));
  }
  const frame = drawn("rect", {class: "frame"}), one = drawn("rect", {class: "frame one"});
  svg.append(frame, one);
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * size.width / box.width - left;
    const y = (event.clientY - box.top) * size.height / box.height - top;
    const limit = (value, n) => Math.max(0, Math.min(n - 1, Math.floor(value / cell)));
    return {side: "queries", index: limit(y, T), key: limit(x, S)};
  };
  svg.addEventListener("pointermove", (event) => show(at(event)));
  svg.addEventListener("pointerleave", () => show(pinned));
  svg.addEventListener("click", (event) => pin(at(event)));
  svg.addEventListener("keydown", (event) => {
    const steps = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0],
      Home: [0, -S], End: [0, S]}, step = steps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const here = pinned.side === "queries" ? pinned.index : lastQuery;
    const key = pinned.key ?? (pinned.side === "keys" ? pinned.index : best(pane, here));
    pin({side: "queries", index: Math.max(0, Math.min(T - 1, here + step[0])),
      key: Math.max(0, Math.min(S - 1, key + step[1]))});
  });
  pane.drawing.querySelector("h2").textContent =
    `Rows: ${part.queryName}, columns: ${part.keyName}`;
  scroll.replaceChildren(svg);
  pane.update = (what) => {
    const wide = what.side === "queries", from = what.index * cell;
    const set = (node, x, y, width, height) => {
      for (const [key, value] of Object.entries({x, y, width, height})) node.setAttribute(key, value);
    };
    if (wide) set(frame, left, top + from, S * cell, cell);
    else set(frame, left + from, top, cell, T * cell);
    one.style.display = what.key === undefined ? "none" : "";
    if (what.key !== undefined) set(one, left + what.key * cell, top + from, cell, cell);
    for (const text of svg.querySelectorAll("text")) {
      const {row: t, column: s} = text.dataset;
      const here = wide ? t === `${what.index}` || s === `${what.key}` : s === `${what.index}`;
      text.classList.toggle("here", here);
    }
  };
}

function best(pane, query) {
  const values = row(pane.weights, {side: "queries", index: query});
  return values.indexOf(greatest(values));
}

function drawLines(pane) {
  const {T, S} = part, {weights} = pane, step = 20, scroll = pane.drawing.querySelector(".scroll");
  const width = Math.max(250, Math.min(620, scroll.clientWidth));
  const side = Math.max(widest(part.queries, 0.36 * width), widest(part.keys, 0.36 * width));
  const height = Math.max(T, S) * step + 4, y = (i) => i * step + step / 2 + 2;
  const svg = drawn("svg", {width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0,
    role: "application", class: "drawn lines",
    "aria-label": `Lines from ${part.queryName} on the left to ${part.keyName} on the right. ` +
      "Arrow keys go from word to word."});
  const line = (t, s) => drawn("line", {x1: side, y1: y(t), x2: width - side, y2: y(s),
    "stroke-opacity": depth(weights[t * S + s]).toFixed(3)});
  const every = drawn("g", {class: "every"}), chosen = drawn("g", {class: "chosen"});
  const least = T * S > 4096 ? 0.1 : 0.01;
  for (let t = 0; t < T; t++) for (let s = 0; s < S; s++)
    if (weights[t * S + s] >= least) every.append(line(t, s));
  svg.append(every, chosen);
  for (const [of, tokens] of [["queries", part.queries], ["keys", part.keys]]) {
    tokens.forEach(([text], i) => {
      const left = of === "queries";
      const word = drawn("text", {x: left ? side - 5 : width - side + 5, y: y(i) + 4,
        "text-anchor": left ? "end" : "start", "data-side": of, "data-index": i},
        clipped(text, side - 6));
      word.addEventListener("pointerenter", (event) => {
        if (event.pointerType !== "touch") show({side: of, index: i});
      });
      word.addEventListener("click", () => pin({side: of, index: i}));
      svg.append(word);
    });
  }
  svg.addEventListener("pointerleave", () => show(pinned));
  svg.addEventListener("keydown", (event) => {
    const {side: of, index} = pinned, most = of === "queries" ? T : S;
    const to = {ArrowDown: [of, index + 1], ArrowUp: [of, index - 1], Home: [of, 0],
      End: [of, most - 1], ArrowLeft: ["queries", index], ArrowRight: ["keys", index]}[event.key];
    if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const limit = (to[0] === "queries" ? T : S) - 1;
    pin({side: to[0], index: Math.max(0, Math.min(limit, to[1]))});
  });
  pane.drawing.querySelector("h2").textContent =
    `Left: ${part.queryName}, right: ${part.keyName}`;
  scroll.replaceChildren(svg);
  pane.update = (what) => {
    chosen.replaceChildren();
    const count = what.side === "queries" ? S : T;
    for (let i = 0; i < count; i++) {
      const [t, s] = what.side === "queries" ? [what.index, i] : [i, what.index];
      if (weights[t * S + s] >= 0.002) chosen.append(line(t, s));
    }
    for (const word of svg.querySelectorAll("text")) word.classList.toggle("here",
      word.dataset.side === what.side && word.dataset.index === `${what.index}`);
  };
}

// Small maps of all heads

let thumbnails = [];

function addAll() {
  const {heads} = part, total = heads.reduce((a, b) => a + b, 0), most = Math.max(...heads);
  $("all").hidden = total < 2;
  thumbnails = [];
  const box = $("all").querySelector(".grid");
  box.replaceChildren();
  if (total < 2) return;
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
        canvas.onclick = () => choose(l, h, panes.length - 1);
        if (part.keys && part.T < 64) canvas.className = "coarse";
        if (changes(l, h)) {
          canvas.classList.add("changes");
          canvas.title += `; without it: ${part.without[l][h].join(" ")}`;
        }
        thumbnails.push({canvas, l, h, number: part.first[l] + h});
      }
    }
  });
  drawAll();
}

function drawAll() {
  const {T, S, bytes, levels} = part, rgb = thumbnails.length ? color() : null;
  for (const {canvas, number: n} of thumbnails) {
    const from = n * S * T;
    if (!part.keys) {
      const most = Math.max(1, ...bytes.subarray(from, from + S * T));
      paint(canvas, ...view.grid, rgb, (i) => (bytes[from + i * T + lastQuery] / most) ** 2);
    } else {
      paint(canvas, T, S, rgb, (i) => bytes[from + i % S * T + Math.floor(i / S)] / levels);
    }
  }
}
