// A map of words: drag and zoom, search, and the neighbours of a word on a click

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const map = $("map");
const make = (name, parent, text) => {
  const svg = "http://www.w3.org/2000/svg";
  const made = parent.namespaceURI === svg ? document.createElementNS(svg, name)
    : document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
};
const ends = (values) => values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)],
  [Infinity, -Infinity]);
const [[left, right], [top, bottom]] = [ends(data.x), ends(data.y)];
const wide = right - left + 80, high = bottom - top + 80;
const view = {x: (left + right) / 2, y: (top + bottom) / 2, zoom: 1};
const size = {width: 1000, height: 800};  // of the map in pixels, so that labels stay readable
const MARGIN = 2, LINE = 14;
let order = data.words.map((_, i) => i);  // whose label is placed first

const words = data.words.map((text, i) => {
  const group = make("g", map);
  group.setAttribute("class", "word");
  make("circle", group).setAttribute("r", 3);
  make("text", group, text);
  group.addEventListener("click", () => choose(i));
  return group;
});
const pen = document.createElement("canvas").getContext("2d");
pen.font = "700 12px system-ui, sans-serif";
const widths = data.words.map((text) => pen.measureText(text).width);

const unit = () => Math.min(size.width / wide, size.height / high);

function draw() {                         // points, and the labels for which there is room
  const scale = unit() * view.zoom, taken = new Map();
  const place = (i) => [size.width / 2 + (data.x[i] - view.x) * scale,
    size.height / 2 + (data.y[i] - view.y) * scale];
  const near = (box) => {
    const found = [];
    for (let x = Math.floor(box.left / 64); x <= box.right / 64; x++)
      for (let y = Math.floor(box.top / 32); y <= box.bottom / 32; y++)
        found.push(`${x},${y}`);
    return found;
  };
  const free = (box) => near(box).every((cell) => (taken.get(cell) ?? []).every((other) =>
    box.right < other.left || box.left > other.right || box.bottom < other.top ||
    box.top > other.bottom));
  for (const i of order) {
    const [x, y] = place(i), group = words[i], label = group.lastChild;
    group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    const inside = x > 0 && y > 0 && x < size.width && y < size.height;
    const length = widths[i] + 2 * MARGIN;
    const spots = [[-length / 2, -LINE - 5], [-length / 2, 5], [6, -LINE / 2],
      [-length - 6, -LINE / 2]];
    const box = ([dx, dy]) => ({left: x + dx, right: x + dx + length, top: y + dy, bottom: y + dy + LINE});
    const within = (b) => b.left >= 0 && b.right <= size.width && b.top >= 0 && b.bottom <= size.height;
    const spot = inside && spots.find((spot) => within(box(spot)) && free(box(spot)));
    label.style.display = spot ? "" : "none";
    if (!spot) continue;
    label.setAttribute("x", (spot[0] + MARGIN).toFixed(1));
    label.setAttribute("y", (spot[1] + LINE - 3).toFixed(1));
    for (const cell of near(box(spot))) taken.set(cell, [...(taken.get(cell) ?? []), box(spot)]);
  }
}

function zoomBy(factor) {
  view.zoom = Math.min(40, Math.max(1, view.zoom * factor));
  draw();
}

new ResizeObserver(() => {
  size.width = Math.max(200, map.clientWidth);
  size.height = Math.round(Math.max(320, Math.min(1.2, Math.max(0.5, high / wide)) * size.width));
  map.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  map.style.height = `${size.height}px`;
  draw();
}).observe(map);

function choose(i, center = false) {
  map.classList.add("picked");
  for (const group of words) group.setAttribute("class", "word");
  $("near").textContent = "";
  for (const [other, cosine] of data.near[i]) {
    const item = make("li", $("near"));
    if (typeof other === "number") {
      words[other].setAttribute("class", "word near");
      map.appendChild(words[other]);
      make("button", item, data.words[other]).onclick = () => choose(other, true);
    } else {
      make("span", item, other).className = "far";
    }
    make("span", item, cosine.toFixed(3));
  }
  words[i].setAttribute("class", "word chosen");
  const first = [i, ...data.near[i].map(([other]) => other).filter((x) => typeof x === "number")];
  order = [...new Set([...first, ...data.words.keys()])];
  map.appendChild(words[i]);
  $("word").textContent = data.words[i];
  $("found").textContent = "";
  if (center) Object.assign(view, {x: data.x[i], y: data.y[i], zoom: Math.max(view.zoom, 3)});
  draw();
}

function find() {
  const wanted = $("search").value.trim().toLowerCase();
  $("found").textContent = "";
  if (!wanted) return [];
  const places = data.words.map((_, i) => i);
  const lower = (i) => data.words[i].toLowerCase();
  const found = [
    ...places.filter((i) => lower(i) === wanted),
    ...places.filter((i) => lower(i) !== wanted && lower(i).startsWith(wanted)),
    ...places.filter((i) => !lower(i).startsWith(wanted) && lower(i).includes(wanted)),
  ].slice(0, 8);
  for (const i of found) {
    make("button", make("li", $("found")), data.words[i]).onclick = () => choose(i, true);
  }
  if (!found.length) make("li", $("found"), "no such word on the map");
  return found;
}

$("search").oninput = find;
$("search").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  const [first] = find();
  if (first !== undefined) choose(first, true);
};

map.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = map.getBoundingClientRect();
  const x = (event.clientX - box.left - size.width / 2) / unit();
  const y = (event.clientY - box.top - size.height / 2) / unit();
  const zoom = Math.min(40, Math.max(1, view.zoom * Math.exp(-event.deltaY / 400)));
  view.x += x / view.zoom - x / zoom;
  view.y += y / view.zoom - y / zoom;
  view.zoom = zoom;
  draw();
}, {passive: false});

map.addEventListener("keydown", (event) => {
  const step = 60 / view.zoom;
  const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step],
    ArrowDown: [0, step]};
  if (event.key in moves) {
    view.x += moves[event.key][0];
    view.y += moves[event.key][1];
  } else if (event.key === "+" || event.key === "-") {
    zoomBy(event.key === "+" ? 1.4 : 1 / 1.4);
  } else {
    return;
  }
  event.preventDefault();
  draw();
});

let grip = null;
map.addEventListener("pointerdown", (event) => {
  grip = [event.clientX, event.clientY];
});
addEventListener("pointermove", (event) => {
  if (!grip) return;
  const scale = 1 / unit() / view.zoom;
  view.x -= (event.clientX - grip[0]) * scale;
  view.y -= (event.clientY - grip[1]) * scale;
  grip = [event.clientX, event.clientY];
  draw();
});
addEventListener("pointerup", () => {
  grip = null;
});
$("closer").onclick = () => zoomBy(1.4);
$("farther").onclick = () => zoomBy(1 / 1.4);
