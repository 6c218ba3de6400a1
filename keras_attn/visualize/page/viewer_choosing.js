// Choosing a view, a kind of attention, layers and heads

function radios(id, names, value, act, disabled = () => false) {
  const box = $(id), focused = box.contains(document.activeElement);
  for (const old of box.querySelectorAll("label")) old.remove();
  box.hidden = names.length < 2;
  for (const [text, key] of names) {
    const label = make("label", {className: "pick"});
    const input = make("input", {type: "radio", name: id, value: key});
    input.checked = key === value;
    input.disabled = disabled(key);
    input.onchange = () => act(key);
    label.append(input, make("span", {textContent: text}));
    box.append(label);
    if (focused && input.checked) input.focus();  // where the keys go on
  }
}

const withMean = (count) =>
  count < 2 ? [["0", 0]] : [["mean", -1], ...Array.from({length: count}, (_, i) => [`${i}`, i])];

function choose(l, h, n = 0) {           // the layer and the head of a pane
  const {heads} = part, pane = panes[n];
  const layer = heads.length < 2 ? 0 : Math.max(-1, Math.min(l, heads.length - 1));
  const count = layer < 0 ? Math.max(...heads) : heads[layer];
  const head = layer < 0 || count < 2 ? (count < 2 && layer >= 0 ? 0 : -1) : Math.min(h, count - 1);
  Object.assign(pane, {layer, head, weights: mix(layer, head)});
  const ids = n ? ["layers2", "heads2"] : ["layers", "heads"];
  radios(ids[0], withMean(heads.length), layer, (to) => choose(to, pane.head, n));
  radios(ids[1], withMean(count), head, (to) => choose(pane.layer, to, n),
    (key) => layer < 0 && key >= 0);
  for (const {canvas, l: a, h: b} of thumbnails)
    canvas.classList.toggle("on", panes.some((p) => p.layer === a && p.head === b));
  redraw(pane);
  answer();
  show(shown);
}

function redraw(pane) {
  pane.which.textContent = nameOfHead(pane);
  pane.which.hidden = panes.length < 2;
  pane.root.querySelector(".both").hidden = form !== "words";
  pane.drawing.hidden = form === "words";
  pane.update = () => {};
  pane.drawing.querySelector(".scroll").replaceChildren();
  if (form === "matrix") drawMatrix(pane);
  if (form === "lines") drawLines(pane);
}

function chooseForm(to) {
  form = part.keys && part.T > 1 ? to : "words";
  const names = part.keys && part.T > 1 ? ["words", "matrix", "lines"] : ["words"];
  radios("forms", names.map((text) => [text, text]), form, chooseForm);
  $("hint").textContent = hints();
  panes.forEach(redraw);
  show(shown);
}

function hints() {
  const left = data.least ? ` Weights below ${data.least} are left out of this page.` : "";
  if (form === "matrix")
    return "Point at a weight to read it. A click keeps it, arrow keys move it." + left;
  if (form === "lines")
    return "Point at a word on the left to see where it looked; on the right, to see who looked at " +
      "it. A click keeps it, arrow keys go on." + left;
  return (part.keys
    ? "Point at a word of the lower text to see where it looked; of the upper one, to see who " +
      "looked at it. A click keeps it, arrow keys go on."
    : "Point at a word to see where it looked; at the picture, to see who looked there. A click " +
      "keeps it, arrow keys go on.") + left;
}

function compare(on) {                   // two heads beside each other, or one
  $("compare").setAttribute("aria-pressed", on);
  $("panes").classList.toggle("two", on);
  for (const id of ["layers2", "heads2"]) $(id).hidden = true;
  while (panes.length > 1) panes.pop().root.remove();
  const [pane] = panes;
  if (on) {
    fillPane(addPane());
    const next = pane.head < 0 ? pane.head : (pane.head + 1) % part.heads[pane.layer];
    const layer = next === pane.head ? (pane.layer + 1) % part.heads.length : pane.layer;
    choose(layer, next, 1);
  }
  $("all").querySelector("h2").textContent = (part.keys ? "All heads" : "All heads, for this word") +
    `: click to choose ${on ? "the second" : "one"}`;
  choose(pane.layer, pane.head);
}

// The answer without a head

const changes = (l, h) =>
  Boolean(part.without?.[l]?.[h] && part.without[l][h][0] !== view.whole[0]);

function answer() {
  const {layer, head} = panes[0], known = part.without?.some((answers) => answers.length);
  const one = layer >= 0 && (head >= 0 || part.heads[layer] < 2);
  const without = one && part.without?.[layer]?.[Math.max(head, 0)];
  $("answer").hidden = !known;
  $("off").hidden = !known;
  $("off").disabled = !without;
  $("off").setAttribute("aria-pressed", Boolean(off && without));
  if (!known) return;
  const line = ([text, chance]) => [make("bdi", {textContent: text, lang: ""}), ` ${chance}`.trimEnd()];
  const shownAnswer = make("b");
  shownAnswer.append(...line(off && without ? without : view.whole));
  const parts = [off && without ? `Answer without ${nameOfHead(panes[0])}: ` : "Answer: ", shownAnswer];
  if (off && without) {
    parts.push(changes(layer, Math.max(head, 0)) ? " · with all heads: " : " · the same with all heads: ",
      ...line(view.whole));
  } else {
    const all = part.without.flatMap((answers, l) => answers.map((_, h) => changes(l, h)));
    const count = all.filter(Boolean).length;
    parts.push(` · ${count || "none"} of the ${all.length} heads here ` +
      `${count === 1 ? "changes" : "change"} it when switched off` + (count ? ", framed below" : ""));
  }
  $("answer").replaceChildren(...parts);
}

// Views, and links to them

let turn = 0;

async function choosePart(index, focus = null) {
  const mine = ++turn, next = view.parts[index];
  $("stage").setAttribute("aria-busy", true);
  await load(next);
  if (mine !== turn) return;
  part = next;
  if (!panes.length) addPane();
  const kept = pinned.side === "queries" ? Math.min(pinned.index, part.T - 1) : 0;
  pinned = shown = {side: "queries", index: focus ? focus.query : kept};
  lastQuery = pinned.index;
  radios("parts", view.parts.map((p, i) => [p.name, i]), index, (i) => choosePart(i));
  $("parts").hidden = false;
  panes.forEach(fillPane);
  addAll();
  const {layer, head} = focus ?? panes[0];
  panes[0].layer = layer;
  panes[0].head = head;
  panes[0].weights = new Float32Array(part.T * part.S);
  $("compare").hidden = part.heads.reduce((a, b) => a + b, 0) < 2;
  choose(layer, head);
  chooseForm(form);
  compare(panes.length > 1 && !$("compare").hidden);
  $("stage").setAttribute("aria-busy", false);
}

function chooseView(index) {
  view = data.views[index];
  $("views").value = index;
  return choosePart(view.focus.part, view.focus);
}

function fragment() {
  const [a, b] = panes;
  const state = {view: data.views.indexOf(view), part: view.parts.indexOf(part), as: form,
    layer: a.layer, head: a.head, [pinned.side]: pinned.index};
  if (pinned.key !== undefined) state.key = pinned.key;
  if (b) Object.assign(state, {layer2: b.layer, head2: b.head});
  if (off) state.off = 1;
  return "#" + new URLSearchParams(state);
}

async function follow(link) {            // opens the view of a link; false if it names none
  const state = new URLSearchParams(link.replace(/^#/, ""));
  const read = (key, count, least = 0) => {
    const value = state.has(key) ? Number(state.get(key)) : NaN;
    return Number.isInteger(value) && value >= least && value < count ? value : null;
  };
  const number = read("view", data.views.length);
  if (number === null) return false;
  view = data.views[number];
  $("views").value = number;
  const index = read("part", view.parts.length) ?? view.focus.part, {heads} = view.parts[index];
  form = ["words", "matrix", "lines"].find((f) => f === state.get("as")) ?? "words";
  off = state.get("off") === "1";
  const most = Math.max(...heads);
  await choosePart(index, {layer: read("layer", heads.length, -1) ?? 0,
    head: read("head", most, -1) ?? -1, query: read("queries", view.parts[index].queries.length) ?? 0});
  const second = read("layer2", heads.length, -1);
  compare(second !== null);
  if (second !== null) choose(second, read("head2", most, -1) ?? -1, 1);
  const key = read("keys", part.S), cell = read("key", part.S);
  if (key !== null) pin({side: "keys", index: key});
  else if (cell !== null) pin({...pinned, key: cell});
  return true;
}
