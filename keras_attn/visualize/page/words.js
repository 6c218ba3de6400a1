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
const view = {x: 500, y: 400, zoom: 1};

const words = data.words.map((text, i) => {
  const group = make("g", map);
  group.setAttribute("class", "word");
  make("circle", group).setAttribute("r", 3);
  make("text", group, text).setAttribute("dy", -5);
  group.addEventListener("click", () => choose(i));
  return group;
});

function draw() {
  words.forEach((group, i) => {
    const x = 500 + (data.x[i] - view.x) * view.zoom, y = 400 + (data.y[i] - view.y) * view.zoom;
    group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  });
}

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
  const x = (event.clientX - box.left) / box.width * 1000 - 500;
  const y = (event.clientY - box.top) / box.height * 800 - 400;
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
    view.zoom = Math.min(40, Math.max(1, view.zoom * (event.key === "+" ? 1.4 : 1 / 1.4)));
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
  const scale = 1000 / map.getBoundingClientRect().width / view.zoom;
  view.x -= (event.clientX - grip[0]) * scale;
  view.y -= (event.clientY - grip[1]) * scale;
  grip = [event.clientX, event.clientY];
  draw();
});
addEventListener("pointerup", () => {
  grip = null;
});
draw();
