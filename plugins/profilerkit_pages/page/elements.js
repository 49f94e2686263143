// Elements whose text is text, never markup: choices, tables, legends, facts, and what is shown under the pointer.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Make an element: attributes, listeners as `onclick`, children that are nodes or text. */
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

let lastId = 0;

/**
 * A choice with a label in front of it; `entries` are pairs of value and text. Where choosing draws the tools again, the
 * new choice of the same label has the focus, so that keys go on.
 */
function choice(text, entries, chosen, onChoose) {
  const id = `choice-${(lastId += 1)}`;
  const options = entries.map(([value, name]) => el("option", { value, selected: String(value) === String(chosen) }, name));
  const select = el("select", { id, "data-label": text, onchange: () => choose() }, ...options);
  const choose = () => {
    const tools = select.closest("[data-tools]");
    onChoose(select.value);
    if (!select.isConnected) tools.querySelector(`[data-label="${text}"]`).focus();
  };
  return el("span", { class: "field" }, el("label", { for: id }, text), select);
}

/** A small table of texts and nodes; `numeric` are the places of its columns of numbers. */
function plainTable(titles, lines, numeric = []) {
  const kind = (place) => (numeric.includes(place) ? "number" : null);
  const heads = titles.map((title, place) => el("th", { scope: "col", class: kind(place) }, title));
  const row = (cells) => el("tr", {}, ...cells.map((cell, place) => el("td", { class: kind(place) }, cell)));
  return el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines.map(row)));
}

/** A legend: pairs of the class of a swatch and of what it means. */
function legend(entries, label = "Legend") {
  const entry = ([kind, text]) => el("li", {}, el("i", { class: `swatch ${kind}` }), el("span", {}, text));
  return el("ul", { class: "legend", "aria-label": label }, ...entries.map(entry));
}

let pen;

/** How wide a text is in the font of the page, in pixels. */
function textWidth(text, size, weight = "") {
  pen ??= Object.assign(document.createElement("canvas").getContext("2d"), {
    family: getComputedStyle(document.body).fontFamily,
  });
  pen.font = `${weight} ${size}px ${pen.family}`;
  return pen.measureText(text).width;
}

/** Facts: pairs of what they are and what is known. */
function factList(pairs) {
  const fact = ([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text));
  return el("dl", { class: "facts" }, ...pairs.map(fact));
}

/** A box to tick. */
function tick(text, checked, onTick) {
  const box = el("input", { type: "checkbox", checked, onchange: () => onTick(box.checked) });
  return el("label", { class: "tick" }, box, text);
}

const tip = {
  show(lines, x, y) {
    const node = document.getElementById("tip");
    node.replaceChildren(...lines.filter(Boolean).map((line) => el("div", {}, line)));
    node.hidden = false;
    const { width, height } = node.getBoundingClientRect();
    node.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    node.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
  },
  hide() {
    document.getElementById("tip").hidden = true;
  },
};
