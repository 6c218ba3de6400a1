// What is seen as a picture: SVG or PNG

function picture() {
  const stage = $("stage"), origin = stage.getBoundingClientRect(), room = 8;
  const width = Math.ceil(origin.width) + 2 * room, height = Math.ceil(origin.height) + 2 * room;
  const svg = drawn("svg", {xmlns: "http://www.w3.org/2000/svg", width, height,
    viewBox: `0 0 ${width} ${height}`});
  const look = (node) => getComputedStyle(node);
  const x = (box) => (box.left - origin.left + room).toFixed(1);
  const y = (box) => (box.top - origin.top + room).toFixed(1);
  const rectangle = (box, fill, radius = 0) => svg.append(drawn("rect", {x: x(box), y: y(box),
    width: box.width.toFixed(1), height: box.height.toFixed(1), rx: radius, fill}));
  svg.append(drawn("rect", {width, height, fill: look(document.body).backgroundColor}));
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return write(node);
    if (node.nodeType !== Node.ELEMENT_NODE || !node.getClientRects().length) return;
    if (node instanceof SVGElement) return copy(node);
    const {backgroundColor, borderRadius} = look(node);
    for (const box of node.getClientRects())
      if (backgroundColor !== "rgba(0, 0, 0, 0)") rectangle(box, backgroundColor, parseFloat(borderRadius));
    if (node.matches("img, canvas")) {
      const box = node.getBoundingClientRect();
      svg.append(drawn("image", {x: x(box), y: y(box), width: box.width, height: box.height,
        preserveAspectRatio: "none", href: node.src ?? node.toDataURL()}));
    }
    node.childNodes.forEach(walk);
  };
  const write = (node) => {
    const style = look(node.parentElement), range = document.createRange();
    for (const found of node.data.matchAll(/\S+/g)) {
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const [box] = range.getClientRects();
      if (box) svg.append(drawn("text", {x: x(box),
        y: (box.bottom - origin.top + room - 0.24 * box.height).toFixed(1), fill: style.color,
        "font-family": style.fontFamily, "font-size": style.fontSize,
        "font-weight": style.fontWeight}, found[0]));
    }
  };
  const copy = (node) => {               // a drawing, with its style written into it
    const twin = node.cloneNode(true), box = node.getBoundingClientRect();
    const old = [node, ...node.querySelectorAll("*")];
    [twin, ...twin.querySelectorAll("*")].forEach((to, i) => {
      for (const key of ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-weight",
        "font-family", "display", "image-rendering"])
        to.setAttribute(key, look(old[i]).getPropertyValue(key));
      for (const key of ["class", "style", "tabindex", "role", "aria-label"]) to.removeAttribute(key);
    });
    twin.setAttribute("x", x(box));
    twin.setAttribute("y", y(box));
    svg.append(twin);
  };
  walk(stage);
  return {width, height, text: new XMLSerializer().serializeToString(svg)};
}

function save(blob, suffix) {
  const [{layer, head}] = panes, place = nameOfHead({layer, head}).replace(/[ ,]+/g, "-");
  const link = make("a", {href: URL.createObjectURL(blob), download: `attention-${place}.${suffix}`});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const saved = {
  svg: () => Promise.resolve(new Blob([picture().text], {type: "image/svg+xml"})),
  png: async () => {
    const {width, height, text} = picture(), image = make("img");
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = make("canvas", {width: 2 * width, height: 2 * height});
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  },
};
for (const kind of ["svg", "png"]) $(kind).onclick = async () => save(await saved[kind](), kind);
