// Where the cost of a model goes: an icicle on a canvas, a layer above the layers inside it. A click zooms in where it is. A timeline is one too.

const FONT = '12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** Everything there is to say of a layer in a few lines, the value of a column first. */
function linesOf(layers, row, column) {
  const share = column.whole > 0 && column.values[row] >= 0 ? `, ${percent(column.values[row] / column.whole)}` : "";
  const others = layers.sizes.filter((one) => one !== column && one.shown && one.values[row] > 0).map((one) => `${one.title} ${shown(one, row)}`);
  const shape = layers.column("output_shapes")?.values[row];
  return [layers.label(row), layers.types[row], `${column.title} ${shown(column, row)}${share}`, others.join(", "), shape ? `gives ${shape}` : ""];
}

class ModelMap {
  /** Those in the page. */
  static get all() {
    return [...document.querySelectorAll("#map canvas, #timeline canvas, #sides canvas")].map((canvas) => canvas.map);
  }

  /** One that is `isLinked` shows the chosen layer, and the address has what it shows. */
  constructor(place, tools, layers, { isLinked = true, name = "the model", thing = "layer", column = layers.usualSize, colours = coloursOf(layers) } = {}) {
    Object.assign(this, { layers, place, isLinked, thing, column, colours, root: layers.tree.roots[0], focus: layers.tree.roots[0] });
    if (isLinked) this.remember();
    tools?.replaceChildren(choice("Sized by", layers.sizes.map((size) => [size.key, size.title]), this.column.key, (key) => this.set({ column: layers.column(key) })));
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
    redrawn(place, () => this.layOut());
  }

  /** What there is to say of a row, and the rows that are marked as chosen: a timeline has more to say, and others. */
  lines(row) {
    return linesOf(this.layers, row, this.column);
  }

  get marked() {
    return this.isLinked ? [chosen.row] : [];
  }

  remember() {
    const { layers } = this;
    this.column = layers.sizes.find((column) => column.key === address.get("size")) ?? this.column;
    const row = layers.rowOf(address.get("zoom", null));
    if (row >= 0 && layers.tree.children[row].length) this.focus = this.root = row;
  }

  /** Show another root, or sizes by another column. */
  set(state) {
    tip.hide();
    Object.assign(this, state);
    this.layOut();
    if (!this.isLinked) return;
    const { layers } = this;
    address.set({ size: this.column === layers.usualSize ? "" : this.column.key, zoom: this.root === layers.tree.roots[0] ? "" : layers.path(this.root) });
  }

  drawLegend() {
    const own = [...this.colours].filter(([type]) => this.layers.types.includes(type));
    const items = own.filter(([, place]) => place < COLOURS).map(([type, place]) => el("li", {}, el("i", { class: `swatch c${place}` }), el("span", {}, type)));
    const others = own.length - items.length;
    if (others) items.push(el("li", {}, el("i", { class: `swatch c${COLOURS}` }), counted(others, "other type")));
    this.legend.replaceChildren(...items, el("li", {}, el("i", { class: "swatch group" }), "layers with others inside"));
  }

  layOut() {
    this.width = Math.max(200, this.place.clientWidth);
    this.boxes = icicle(this.layers, this.column, this.root, this.width);
    this.height = this.boxes.reduce((most, box) => Math.max(most, box.y + LEVEL), LEVEL);
    if (!this.boxes.some((box) => box.row === this.focus)) this.focus = this.root;
    this.drawTrail();
    this.draw();
    this.canvas.dataset.boxes = this.boxes.length;
    this.canvas.dataset.root = this.layers.label(this.root);
  }

  drawTrail() {
    const around = [...this.layers.tree.around(this.root)].reverse();
    const steps = around.map((row) => el("button", { type: "button", class: "link", onclick: () => this.zoom(row) }, this.layers.name(row)));
    const here = el("span", { "aria-current": "true" }, this.layers.name(this.root));
    const long = steps.length > 6 ? [steps[0], el("span", {}, "…"), ...steps.slice(-4)] : steps;
    this.trail.replaceChildren(...long, here, el("span", { class: "value" }, this.lines(this.root)[2]));
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
    const ink = { text: colour("--ink"), group: colour("--group"), more: colour("--line"), mark: colour("--mark") };
    for (const box of this.boxes) this.drawBox(pen, box, fills, ink);
    for (const row of this.marked) this.outline(pen, row, ink.mark, 2.5);
    if (document.activeElement === this.canvas) this.outline(pen, this.focus, ink.text, 2);
  }

  drawBox(pen, box, fills, ink) {
    const isLeaf = box.row >= 0 && !this.layers.tree.children[box.row].length;
    pen.fillStyle = box.row < 0 ? ink.more : isLeaf ? fills[this.colours.get(this.layers.types[box.row])] : ink.group;
    pen.fillRect(box.x, box.y, Math.max(0.5, box.w - (box.w > 4 ? 1 : 0)), box.h - 1);
    if (box.w < 26) return;
    pen.fillStyle = ink.text;
    pen.fillText(this.fitting(pen, this.text(box), box.w - 9), box.x + 4, box.y + box.h / 2);
  }

  text(box) {
    if (box.row < 0) return counted(box.more, this.thing);
    const name = this.layers.name(box.row);
    return box.w > 150 ? `${name}  ${this.lines(box.row)[2]}` : name;
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

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.boxes.find((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h);
  }

  hover(event) {
    const box = this.at(event);
    if (!box) return this.leave();
    const { layers } = this;
    const narrowOnes = () => [`${counted(box.more, this.thing)} too narrow to draw`, `inside ${layers.label(box.inside)}: zoom in to see them`];
    this.canvas.style.cursor = "pointer";
    return tip.show(box.row < 0 ? narrowOnes() : this.lines(box.row), event.clientX, event.clientY);
  }

  leave() {
    tip.hide();
    this.canvas.style.cursor = "";
    this.draw();
  }

  click(event) {
    const box = this.at(event);
    if (box) this.pick(box.row < 0 ? box.inside : box.row);
  }

  pick(row) {
    if (this.isLinked) chosen.choose(row, this);
    this.zoom(row);
  }

  /** Look at a layer from the inside; of an innermost one, at the layer around it. */
  zoom(row) {
    const { parents, children, roots } = this.layers.tree;
    this.set({ focus: row, root: children[row].length ? row : Math.max(parents[row], roots[0]) });
    this.say();
  }

  key(event) {
    const { tree } = this.layers;
    const isDrawn = (row) => this.boxes.some((box) => box.row === row);
    const beside = (this.root === this.focus ? [this.focus] : tree.children[tree.parents[this.focus]] ?? tree.roots).filter(isDrawn);
    const place = beside.indexOf(this.focus);
    const moves = {
      ArrowLeft: beside[place - 1],
      ArrowRight: beside[place + 1],
      ArrowUp: this.focus === this.root ? undefined : tree.parents[this.focus],
      ArrowDown: tree.children[this.focus].find(isDrawn),
      Home: beside[0],
      End: beside.at(-1),
    };
    if (event.key === "Enter" || event.key === " ") this.pick(this.focus);
    else if (event.key === "Escape" || event.key === "Backspace") {
      const outer = tree.parents[this.root];
      if (outer >= 0) this.set({ focus: this.root, root: outer });
    } else if (event.key in moves) this.focus = moves[event.key] ?? this.focus;
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
    const { parents } = this.layers.tree;
    if (row >= 0 && !this.boxes.some((box) => box.row === row)) {
      const around = new Set([row, ...this.layers.tree.around(row)]);
      let { root } = this;
      while (!around.has(root) && parents[root] >= 0) root = parents[root];
      this.set({ root });
    }
    if (row >= 0 && this.boxes.some((box) => box.row === row)) this.focus = row;
    this.draw();
  }
}
