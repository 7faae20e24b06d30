"use strict";
// Text enters the page only as text nodes and attribute values, never as markup.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// "DiMS (0.5)" has the colour of "DiMS".
const methodKey = (name) =>
  name.toLowerCase().replace(/\s*\(.*$/, "").replace(/[^a-z]+/g, "_");

const colourOf = (name) => `var(--${methodKey(name)}, var(--faint))`;

function format(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  if (size >= 1e4 && size < 1e6) return String(Math.round(value));
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(4)));
  return value.toExponential(2).replace(/\.?0+e/, "e");
}

function choice(label, options, change, chosen = 0) {
  const select = el("select", { onchange: () => change(Number(select.value)) });
  options.forEach((text, i) => select.append(el("option", { value: i, selected: i === chosen }, text)));
  return el("label", {}, label, select);
}

function legend(names) {
  return el("div", { class: "legend" }, ...[...new Set(names)].map((name) => {
    const entry = el("span", {}, name);
    entry.style.setProperty("--colour", colourOf(name));
    return entry;
  }));
}

// Charts are drawn in page pixels, so that text stays readable on narrow screens. Each is drawn when
// it enters the page, and again when its width changes.
const sized = new Set();

function whenSized(host, draw) {
  let width = 0;
  sized.add(() => {
    if (host.isConnected && host.clientWidth > 0 && host.clientWidth !== width) draw((width = host.clientWidth));
    return host.isConnected;
  });
}

function drawSized() {
  for (const redraw of sized) if (!redraw()) sized.delete(redraw);
}

window.addEventListener("resize", drawSized);
