// The icicle and the treemap of a model on a canvas: hover, click to zoom, and all of it by keyboard.

const FONT = '12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** A colour of the style sheet as the theme has it now: a canvas cannot name it. */
function colour(name) {
  const probe = document.getElementById("tip");
  const before = probe.style.color;
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.style.color = before;
  return found;
}

/** What the layers of a model are sized by at first: their MACs, where they have any. */
const usualSize = (layers) => (layers.column("macs")?.whole ? layers.column("macs") : layers.sizes[0]);

/** How a map is drawn, and what its boxes are sized by; `onChange` gets what was changed. */
const mapTools = (kind, sizes, column, onChange) => [
  switchOf("Picture", [["icicle", "Icicle"], ["treemap", "Treemap"]], kind, (chosenKind) => onChange({ kind: chosenKind })),
  choice("Sized by", sizes.map((size) => [size.key, size.title]), column.key, (key) => onChange({ key })),
];

class ModelMap {
  /** Those in the page. */
  static get all() {
    return [...document.querySelectorAll("canvas[data-kind]")].map((canvas) => canvas.map);
  }

  /** One that is `linked` shows the chosen layer, and the address has what it shows. */
  constructor(place, tools, layers, { linked = true, name = "the model", kind = "icicle", column = usualSize(layers), colours = coloursOf(layers) } = {}) {
    Object.assign(this, { layers, place, linked, kind, column, colours, root: layers.tree.roots[0], focus: layers.tree.roots[0] });
    if (linked) this.remember();
    tools?.replaceChildren(...mapTools(this.kind, layers.sizes, this.column, ({ kind: other, key }) => this.set(other ? { kind: other } : { column: layers.column(key) })));
    this.trail = el("nav", { class: "trail", "aria-label": "Zoom" });
    this.canvas = el("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of the model",
      "aria-label": `Map of ${name}: arrow keys move between layers, Enter zooms in, Escape zooms out`,
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.hover(event),
      onpointerleave: () => this.leave(),
      onclick: (event) => this.click(event),
      onfocus: () => this.draw(),
      onblur: () => this.leave(),
    });
    this.canvas.map = this;
    this.said = el("p", { class: "said", role: "status" });
    this.legend = el("ul", { class: "legend", "aria-label": "Types of layers" });
    place.replaceChildren(this.trail, el("div", { class: "canvas" }, this.canvas), this.said, this.legend);
    this.drawLegend();
    this.layOut();
  }

  remember() {
    const { layers } = this;
    this.kind = address.among("picture", ["icicle", "treemap"]);
    this.column = layers.sizes.find((column) => column.key === address.get("size")) ?? this.column;
    const row = layers.rowOf(address.get("zoom", null));
    if (row >= 0 && layers.tree.children[row].length) this.focus = this.root = row;
  }

  set(state) {
    Object.assign(this, state);
    this.layOut();
    this.note();
  }

  /** Write into the address what is looked at. */
  note() {
    if (!this.linked) return;
    const { layers } = this;
    address.set({ picture: this.kind === "icicle" ? "" : this.kind, size: this.column === usualSize(layers) ? "" : this.column.key, zoom: this.root === layers.tree.roots[0] ? "" : layers.path(this.root) });
  }

  drawLegend() {
    const own = new Set(this.layers.types);
    const named = [...this.colours].filter(([type, place]) => place < COLOURS && own.has(type));
    const items = named.map(([type, place]) => el("li", {}, el("i", { class: `swatch c${place}` }), el("span", {}, type)));
    const others = [...this.colours].filter(([type, place]) => place >= COLOURS && own.has(type)).length;
    if (others) items.push(el("li", {}, el("i", { class: `swatch c${COLOURS}` }), counted(others, "other type")));
    this.legend.replaceChildren(...items, el("li", {}, el("i", { class: "swatch group" }), "layers with others inside"));
  }

  layOut() {
    const width = Math.max(200, this.place.clientWidth);
    if (this.kind === "icicle") {
      this.boxes = icicle(this.layers, this.column, this.root, width);
      this.height = this.boxes.reduce((most, box) => Math.max(most, box.y + LEVEL), LEVEL);
    } else {
      this.height = Math.max(240, Math.min(460, width * 0.6));
      this.boxes = treemap(this.layers, this.column, this.root, width, this.height);
    }
    this.width = width;
    if (!this.boxes.some((box) => box.row === this.focus)) this.focus = this.root;
    this.drawTrail();
    this.draw();
    this.canvas.dataset.boxes = this.boxes.length;
    this.canvas.dataset.kind = this.kind;
    this.canvas.dataset.root = this.layers.label(this.root);
  }

  drawTrail() {
    const around = [...this.layers.tree.around(this.root)].reverse();
    const steps = around.map((row) => el("button", { type: "button", class: "link", onclick: () => this.zoom(row) }, this.layers.names[row] || "(model)"));
    const here = el("span", { "aria-current": "true" }, this.layers.names[this.root] || "(model)");
    const long = steps.length > 6 ? [steps[0], el("span", {}, "…"), ...steps.slice(-4)] : steps;
    this.trail.replaceChildren(...long, here, el("span", { class: "value" }, this.value(this.root)));
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = FONT;
    pen.textBaseline = "middle";
    const fills = Array.from({ length: COLOURS + 1 }, (_, place) => colour(`--c${place}`));
    const ink = { text: colour("--ink"), group: colour("--group"), more: colour("--line"), page: colour("--panel"), mark: colour("--mark") };
    for (const box of this.boxes) this.drawBox(pen, box, fills, ink);
    if (this.linked) this.outline(pen, chosen.row, ink.mark, 2.5);
    if (document.activeElement === this.canvas) this.outline(pen, this.focus, ink.text, 2);
  }

  drawBox(pen, box, fills, ink) {
    const leaf = box.row >= 0 && !this.layers.tree.children[box.row].length;
    const place = this.colours.get(this.layers.types[box.row]);
    pen.fillStyle = box.row < 0 ? ink.more : leaf ? fills[place] : ink.group;
    pen.fillRect(box.x, box.y, Math.max(0.5, box.w - (box.w > 4 ? 1 : 0)), Math.max(0.5, box.h - (box.h > 4 ? 1 : 0)));
    if (this.kind === "treemap" && !leaf && box.h > 4) {
      pen.strokeStyle = ink.page;
      pen.strokeRect(box.x, box.y, box.w, box.h);
    }
    const line = this.kind === "icicle" || box.head ? Math.min(box.h, 17) : box.h;
    if (box.w < 26 || line < 12) return;
    const middle = this.kind === "icicle" ? box.y + box.h / 2 : box.head ? box.y + 9 : box.y + Math.min(box.h / 2, 11);
    pen.fillStyle = ink.text;
    pen.fillText(this.fitting(pen, this.text(box), box.w - 9), box.x + 4, middle);
  }

  text(box) {
    if (box.row < 0) return counted(box.more, "layer");
    const name = this.layers.names[box.row] || "(model)";
    return box.w > 150 ? `${name}  ${this.value(box.row)}` : name;
  }

  fitting(pen, text, room) {
    if (pen.measureText(text).width <= room) return text;
    let [fits, tooLong] = [0, Math.min(text.length, 120)];
    while (tooLong - fits > 1) {
      const middle = (fits + tooLong) >> 1;
      if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) fits = middle;
      else tooLong = middle;
    }
    return fits > 1 ? `${text.slice(0, fits)}…` : "";
  }

  outline(pen, row, ink, thick) {
    const box = this.boxes.find((one) => one.row === row && row >= 0);
    if (!box) return;
    pen.strokeStyle = ink;
    pen.lineWidth = thick;
    pen.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.w - 3), Math.max(1, box.h - 3));
    pen.lineWidth = 1;
  }

  value(row) {
    const value = this.column.values[row];
    const share = this.column.whole > 0 && value >= 0 ? `, ${percent(value / this.column.whole)}` : "";
    return `${this.column.title} ${shown(this.column, row)}${share}`;
  }

  /** Everything there is to say of a layer in a few lines. */
  lines(row) {
    const { layers } = this;
    const others = layers.sizes.filter((column) => column !== this.column && column.shown && column.values[row] > 0).map((column) => `${column.title} ${shown(column, row)}`);
    const shape = layers.column("output_shapes");
    return [layers.label(row), layers.types[row], this.value(row), others.join(", "), shape ? `gives ${shape.values[row]}` : ""];
  }

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    let found = null;
    for (const box of this.boxes) {
      if (x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h && (!found || box.level >= found.level)) found = box;
    }
    return found;
  }

  hover(event) {
    const box = this.at(event);
    if (!box) return this.leave();
    const lines = box.row < 0 ? [`${counted(box.more, "layer")} too narrow to draw`, `inside ${this.layers.label(box.inside)}: zoom in to see them`] : this.lines(box.row);
    this.canvas.style.cursor = "pointer";
    return tip.show(lines, event.clientX, event.clientY);
  }

  leave() {
    tip.hide();
    this.canvas.style.cursor = "";
    this.draw();
  }

  click(event) {
    const box = this.at(event);
    if (!box) return;
    const row = box.row < 0 ? box.inside : box.row;
    this.focus = row;
    if (this.linked) chosen.choose(row, this);
    this.zoom(row);
  }

  /** Look at a layer from the inside; of an innermost one, at the layer around it. */
  zoom(row) {
    tip.hide();
    const inside = this.layers.tree.children[row].length > 0;
    this.focus = row;
    this.root = inside ? row : Math.max(this.layers.tree.parents[row], this.layers.tree.roots[0]);
    this.layOut();
    this.note();
    this.say();
  }

  out() {
    const outer = this.layers.tree.parents[this.root];
    if (outer < 0) return;
    this.focus = this.root;
    this.root = outer;
    this.layOut();
    this.note();
    this.say();
  }

  key(event) {
    const { tree } = this.layers;
    const beside = this.root === this.focus ? [this.focus] : tree.children[tree.parents[this.focus]] ?? tree.roots;
    const drawn = beside.filter((row) => this.boxes.some((box) => box.row === row));
    const place = drawn.indexOf(this.focus);
    const inside = tree.children[this.focus].filter((row) => this.boxes.some((box) => box.row === row));
    const moves = {
      ArrowLeft: drawn[place - 1],
      ArrowRight: drawn[place + 1],
      ArrowUp: this.focus === this.root ? undefined : tree.parents[this.focus],
      ArrowDown: inside[0],
      Home: drawn[0],
      End: drawn[drawn.length - 1],
    };
    if (event.key === "Enter" || event.key === " ") {
      if (this.linked) chosen.choose(this.focus, this);
      this.zoom(this.focus);
    } else if (event.key === "Escape" || event.key === "Backspace") this.out();
    else if (event.key in moves) this.focus = moves[event.key] ?? this.focus;
    else return;
    event.preventDefault();
    this.draw();
    this.say();
  }

  say() {
    this.said.textContent = this.lines(this.focus).slice(0, 4).filter(Boolean).join(", ");
    this.canvas.dataset.focus = this.layers.label(this.focus);
  }

  /** Show a layer that was chosen elsewhere, zooming out as far as it takes. */
  find(row) {
    if (row >= 0 && !this.boxes.some((box) => box.row === row)) {
      const around = new Set([row, ...this.layers.tree.around(row)]);
      while (!around.has(this.root) && this.layers.tree.parents[this.root] >= 0) this.root = this.layers.tree.parents[this.root];
      this.layOut();
      this.note();
    }
    if (row >= 0 && this.boxes.some((box) => box.row === row)) this.focus = row;
    this.draw();
  }
}
