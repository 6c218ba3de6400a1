// One query through scores, scale, mask, softmax and weighted sum

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...content) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...content);
  return node;
};
const word = (text) => make("bdi", {textContent: text, lang: ""});
const largest = (...tables) => Math.max(1e-12, ...tables.flat(2).map(Math.abs));
const most = {key: largest(data.query, data.key), value: largest(data.value, data.context)};
let query = data.start, step = 0, key = 0;

function short(x) {
  if (x === 0) return "0";
  const size = Math.abs(x), sign = x < 0 ? "−" : "";
  if (size >= 1000) return sign + size.toFixed(0);
  return sign + (size >= 0.001 ? size.toPrecision(3) : size.toExponential(1));
}

const factor = (x) => x < 0 ? `(${short(x)})` : short(x);

function strip(values, limit) {
  const cells = values.map((x) => {
    const cell = make("i", {className: x < 0 ? "minus" : "", title: short(x)});
    cell.style.setProperty("--v", Math.min(1, Math.abs(x) / limit).toFixed(3));
    return cell;
  });
  const names = values.slice(0, 4).map(short).join(", ");
  const node = make("div", {className: "strip"}, ...cells);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", `${values.length} numbers: ${names}${values.length > 4 ? ", …" : ""}`);
  return node;
}

const labelled = (label, content) => make("div", {className: "labelled"}, label, content);
const scaled = (k) => data.products[query][k] * data.scale;
const seen = (k) => Boolean(data.visible[query][k]);
const masked = (k) => seen(k) ? short(scaled(k)) : "−∞";
const weight = (k) => data.weights[query][k];

function meter(k) {
  const bar = make("b");
  bar.style.setProperty("--v", weight(k).toFixed(4));
  return make("span", {className: "meter"}, bar, short(weight(k)));
}

function terms(a, b, sign) {             // the first products of a sum, and how many there are
  const some = a.slice(0, 3).map((x, i) => `${factor(x)}·${factor(b[i])}`);
  return some.join(" + ") + (a.length > 3 ? ` + … (${a.length} ${sign})` : "");
}

const columns = {
  key: ["key k", (k) => strip(data.key[k], most.key), "wide"],
  value: ["value v", (k) => strip(data.value[k], most.value), "wide"],
  product: ["q · k", (k) => short(data.products[query][k])],
  scaled: ["scaled", (k) => short(scaled(k))],
  masked: ["masked", (k) => masked(k)],
  weight: ["weight", meter],
};
const softmaxParts = () => {
  const visible = data.keys.map((_, k) => k).filter(seen);
  const top = Math.max(...visible.map(scaled));
  const total = visible.reduce((sum, k) => sum + Math.exp(scaled(k) - top), 0);
  return {top, total, none: !visible.length};
};

const steps = [
  {name: "Query, keys and values", formula: "q,  k₁ … kₛ,  v₁ … vₛ", columns: ["key", "value"],
    note: () => "The layer has projected the query token to q, and each token that may be looked " +
      "at to a key k and a value v.",
    numbers: () => `q = (${data.query[query].slice(0, 4).map(short).join(", ")}, …): ` +
      `${data.query[query].length} numbers`},
  {name: "Scores", formula: "score = q · k", columns: ["key", "product"],
    note: () => "The dot product of the query and each key: large where both point the same way.",
    numbers: () => `${terms(data.query[query], data.key[key], "products")} = ` +
      short(data.products[query][key])},
  {name: "Scale", formula: "scaled = score × scale", columns: ["product", "scaled"],
    note: () => `The scale of this layer is ${short(data.scale)}; 1/√${data.query[query].length} is ` +
      `${short(1 / Math.sqrt(data.query[query].length))}. It keeps the softmax from saturating.`,
    numbers: () => `${short(data.products[query][key])} × ${short(data.scale)} = ${short(scaled(key))}`},
  {name: "Mask", formula: "masked = scaled where visible, else −∞", columns: ["scaled", "masked"],
    note: () => {
      const count = data.keys.filter((_, k) => seen(k)).length;
      return `This query may look at ${count} of ${data.keys.length} keys` +
        (count < data.keys.length ? "; the mask hides the others." : ": the mask hides none.");
    },
    numbers: () => seen(key) ? `visible: ${short(scaled(key))} stays` : "hidden: −∞"},
  {name: "Softmax", formula: "weight = exp(masked) / Σ exp(masked)", columns: ["masked", "weight"],
    note: () => "The weights are positive and sum to 1. The largest masked score is subtracted " +
      "first, which does not change the result and avoids large exponentials.",
    numbers: () => {
      const {top, total, none} = softmaxParts();
      if (none) return "this query sees no key: all weights are 0";
      if (!seen(key)) return `exp(−∞) / ${short(total)} = 0`;
      return `exp(${short(scaled(key))} − ${factor(top)}) / ${short(total)} = ` +
        `${short(Math.exp(scaled(key) - top))} / ${short(total)} = ${short(weight(key))}`;
    }},
  {name: "Weighted sum", formula: "context = Σ weight × v", columns: ["weight", "value"],
    note: () => "Each value counts by its weight. The output projection of the layer reads this " +
      "context and the contexts of the other heads.",
    numbers: () => {
      const order = data.keys.map((_, k) => k).sort((a, b) => weight(b) - weight(a)).slice(0, 3);
      const sum = order.map((k) => `${short(weight(k))}·${factor(data.value[k][0])}`).join(" + ");
      return `first number: ${sum}${data.keys.length > 3 ? " + …" : ""} = ` +
        short(data.context[query][0]);
    }},
];

function show() {
  const now = steps[step], last = now.columns[now.columns.length - 1];
  $("query").value = query;
  $("where").textContent = `Step ${step + 1} of ${steps.length}`;
  $("back").disabled = step === 0;
  $("next").disabled = step === steps.length - 1;
  $("name").textContent = now.name;
  $("formula").textContent = now.formula;
  $("note").textContent = now.note();
  const each = step > 0 && step < 5 ? [make("b", {}, word(data.keys[key]), ": ")] : [];
  $("numbers").replaceChildren(...each, now.numbers());
  const q = make("span", {}, "q of ", make("b", {}, word(data.queries[query])));
  $("vector").replaceChildren(...(step < 2 ? [labelled(q, strip(data.query[query], most.key))] : []));
  const head = make("tr", {}, make("th", {textContent: "token", scope: "col"}), ...now.columns.map((name) =>
    make("th", {textContent: columns[name][0], scope: "col", className: columns[name][2] ?? ""})));
  const rows = data.keys.map((text, k) => {
    const button = make("button", {type: "button", onclick: () => { key = k; show(); }}, word(text));
    button.setAttribute("aria-pressed", k === key);
    const cells = now.columns.map((name) => make("td", {className: (columns[name][2] ?? "") +
      (name === last && step > 0 && step < 5 ? " new" : "")}, columns[name][1](k)));
    return make("tr", {className: `${k === key ? "chosen" : ""} ${seen(k) || step < 3 ? "" : "hidden"}`},
      make("td", {}, button), ...cells);
  });
  const focused = document.activeElement?.closest("#table tr")?.rowIndex;
  $("table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  if (focused) $("table").rows[focused].querySelector("button").focus();
  $("result").replaceChildren(...(step === 5
    ? [labelled(make("b", {textContent: "context"}), strip(data.context[query], most.value))] : []));
}

function go(to) {
  step = Math.max(0, Math.min(steps.length - 1, to));
  show();
}

data.queries.forEach((text, i) => $("query").append(make("option", {textContent: text, value: i})));
$("query").onchange = () => {
  query = Number($("query").value);
  key = data.weights[query].indexOf(Math.max(...data.weights[query]));
  show();
};
$("back").onclick = () => go(step - 1);
$("next").onclick = () => go(step + 1);
addEventListener("keydown", (event) => {
  const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
  event.preventDefault();
  go(step + by);
});
key = data.weights[query].indexOf(Math.max(...data.weights[query]));
show();
