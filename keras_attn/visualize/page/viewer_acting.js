// Showing what the pointer and the keys are at

function show(what) {
  const turned = what.side === "queries" && what.index !== lastQuery;
  shown = what;
  if (what.side === "queries") lastQuery = what.index;
  const other = what.side === "queries" ? "keys" : "queries", lines = [];
  for (const pane of panes) {
    const values = row(pane.weights, what);
    if (form === "words") {
      mark(pane, other, -1);
      mark(pane, what.side, what.index);
      shade(pane, what.side, null);
      shade(pane, other, values);
      if (pane.picture && what.side === "keys") frameRegion(pane, what.index);
    } else {
      pane.update(what);
    }
    lines.push(told(pane, what, values));
    if (pane === panes[0]) tellScale(pane, what, values);
  }
  $("status").replaceChildren(...lines);
  $("link").href = fragment();
  if (!part.keys && turned) drawAll();
}

function tellScale(pane, what, values) {
  const seen = Boolean(pane.picture && what.side === "queries");
  const ramp = document.querySelector(".ramp");
  ramp.classList.toggle("seen", seen);
  ramp.classList.toggle("map", form !== "words");
  $("most").textContent = seen ? number(greatest(values)) : "1";
}

function pin(what) {
  pinned = what;
  show(what);
}

function listen(pane, side) {
  const box = pane[side];
  const place = (event) => {
    const chip = event.target.closest(".t");
    return chip ? Number(chip.dataset.index) : -1;
  };
  const region = (event) => {
    const area = pane.veil.getBoundingClientRect(), [rows, columns] = view.grid;
    const at = (x, n) => Math.max(0, Math.min(n - 1, Math.floor(x * n)));
    return at((event.clientY - area.top) / area.height, rows) * columns +
      at((event.clientX - area.left) / area.width, columns);
  };
  const seen = () => side === "keys" && pane.picture;
  const index = (event) => seen() ? region(event) : place(event);
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
    const count = seen() ? part.S : box.children.length;
    const now = seen() ? (pinned.side === "keys" ? pinned.index : 0) : place(event);
    const wide = seen() ? view.grid[1] : 1;
    const forward = getComputedStyle(box).direction === "rtl" ? -1 : 1;
    const steps = {ArrowRight: forward, ArrowLeft: -forward, ArrowDown: wide, ArrowUp: -wide,
      Home: -now, End: count - 1 - now, Enter: 0, " ": 0};
    if (!(event.key in steps) || now < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(count - 1, now + steps[event.key]));
    if (!seen()) {
      box.children[now].tabIndex = -1;
      box.children[to].tabIndex = 0;
      box.children[to].focus();
    }
    pin({side, index: to});
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  panes.forEach(redraw);
  drawAll();
  show(shown);
});
$("compare").onclick = () => compare(panes.length < 2);
$("off").onclick = () => {
  off = !off;
  answer();
  show(shown);
};
data.views.forEach((v, i) => $("views").append(make("option", {textContent: v.title, value: i})));
$("chooser").hidden = data.views.length < 2;
$("views").onchange = () => chooseView(Number($("views").value));
addEventListener("hashchange", () => follow(location.hash));
if ("DecompressionStream" in window) {
  follow(location.hash).then((known) => known || chooseView(0));
} else {
  $("hint").textContent = "This page needs a browser of 2023 or later, with DecompressionStream.";
}
