// Numbers as profilerkit/quantity.py writes them, and elements whose text is text, never markup.

const UPWARD = { si: [1000, ["", "k", "M", "G", "T", "P", "E"]], iec: [1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]] };
const DOWNWARD = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const ROUNDS_UP = 1 - 5e-5;

function factorOf(value, scale) {
  const size = Math.abs(value);
  if (scale === "none" || size === 0 || !Number.isFinite(size)) return [1, ""];
  if (scale === "time") return DOWNWARD.find(([step]) => size >= step * ROUNDS_UP) ?? DOWNWARD[3];
  const [base, prefixes] = UPWARD[scale];
  let power = 0;
  while (power < prefixes.length - 1 && size >= base ** (power + 1) * ROUNDS_UP) power += 1;
  return [base ** power, prefixes[power]];
}

function formatNumber(number, digits = 4) {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  const size = Math.abs(number);
  if (size && (size < 1e-4 || size >= 1e15)) {
    const [mantissa, power] = number.toExponential(digits - 1).split("e");
    const exponent = power.slice(1).padStart(2, "0");
    return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${power[0]}${exponent}`;
  }
  if (Number.isInteger(number)) return size >= 10000 ? grouped(number) : String(number);
  const behind = Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(size))), 12);
  if (size >= 10000) return number.toLocaleString("en-US", { minimumFractionDigits: digits > 4 ? behind : 0, maximumFractionDigits: behind });
  const text = number.toFixed(behind);
  return digits === 4 && text.includes(".") ? text.replace(/\.?0+$/, "") : text; // among more digits zeros stay: they align
}

/** A value in base units with the prefix that reads best. */
function quantity(value, unit = "", scale = "none", digits = 4) {
  const [factor, prefix] = factorOf(value, scale);
  return `${formatNumber(value / factor, digits)} ${prefix}${unit}`.trimEnd();
}

/** How these values are written beside each other: in four digits, or in more where two that differ would look alike. */
function writerOf(values, unit, scale) {
  const different = new Set(values);
  const writer = (digits) => (value) => quantity(value, unit, scale, digits);
  const tellsApart = (digits) => new Set([...different].map(writer(digits))).size === different.size;
  let digits = 4;
  while (digits < 16 && !tellsApart(digits)) digits += 1;
  return writer(digits);
}

/** A share as text, whose firm space keeps number and sign on one line. */
function percent(share) {
  if (!Number.isFinite(share)) return "";
  return `${share >= 0.0005 || share === 0 ? (100 * share).toFixed(1) : "<0.1"}\u00a0%`;
}

const grouped = (number) => number.toLocaleString("en-US");
const counted = (number, word) => `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;

/** A text as long as a label may be. */
const cut = (text, longest = 34) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

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
  const head = el("thead", {}, el("tr", {}, ...titles.map((title, place) => el("th", { scope: "col", class: kind(place) }, title))));
  return el("table", { class: "plain" }, head, el("tbody", {}, ...lines.map((cells) => el("tr", {}, ...cells.map((cell, place) => el("td", { class: kind(place) }, cell))))));
}

/** A legend: pairs of the class of a swatch and of what it means. */
function legend(entries, label = "Legend") {
  return el("ul", { class: "legend", "aria-label": label }, ...entries.map(([kind, text]) => el("li", {}, el("i", { class: `swatch ${kind}` }), el("span", {}, text))));
}

let pen;

/** How wide a text is in the font of the page, in pixels. */
function textWidth(text, size, weight = "") {
  pen ??= Object.assign(document.createElement("canvas").getContext("2d"), { family: getComputedStyle(document.body).fontFamily });
  pen.font = `${weight} ${size}px ${pen.family}`;
  return pen.measureText(text).width;
}

/** Facts: pairs of what they are and what is known. */
const factList = (pairs) => el("dl", { class: "facts" }, ...pairs.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));

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
