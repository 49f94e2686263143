// Where the cost of a model goes: an icicle, a layer above the layers inside it. A click zooms in where it is. A timeline
// is one too.

const LEVEL = 26;
const MOST_LEVELS = 14;
const NARROWEST = 2.5;
/** Boxes narrower than this, in pixels, have no name. */
const NAMED = 32;

// Where each layer lies: what is too small to be seen is put together, so that the number of boxes depends on the picture,
// not on the model.

/** What a layer counts in a picture: a number above zero, or nothing. */
const weightOf = (column, row) => (column.values[row] > 0 && Number.isFinite(column.values[row]) ? column.values[row] : 0);

/** The whole of a layer: at least what the layers inside it add up to (shared weights count in each of them). */
function extent(layers, column, row) {
  return Math.max(
    weightOf(column, row),
    layers.tree.children[row].reduce((sum, inside) => sum + weightOf(column, inside), 0),
  );
}

/** Boxes from the top down, as wide as their share. Neighbours too narrow to draw are one box, `more` of them. */
function icicle(layers, column, root, width) {
  const boxes = [];
  const waiting = [{ row: root, x: 0, w: width, level: 0 }];
  while (waiting.length) {
    const box = waiting.pop();
    boxes.push(box);
    if (box.row >= 0 && box.level + 1 < MOST_LEVELS) waiting.push(...boxesInside(layers, column, box).reverse());
  }
  return boxes.filter((box) => box.w >= 0.4);
}

function boxesInside(layers, column, box) {
  const whole = extent(layers, column, box.row);
  const level = box.level + 1;
  const boxes = [];
  let x = box.x;
  for (const row of whole ? layers.tree.children[box.row] : []) {
    const w = (box.w * weightOf(column, row)) / whole;
    const before = boxes.at(-1);
    if (w >= NARROWEST) boxes.push({ row, x, w, level });
    else if (w > 0 && before?.row === -1) Object.assign(before, { w: before.w + w, more: before.more + 1 });
    else if (w > 0) boxes.push({ row: -1, inside: box.row, x, w, level, more: 1 });
    x += w;
  }
  return boxes;
}

// The map -------------------------------------------------------------------------------------------------------------

/** Everything there is to say of a layer in a few lines, the value of a column first. */
function linesOf(layers, row, column) {
  const share = shareText(column, column.values[row]);
  const others = layers.sizes.filter(
    (one) => one !== column && one.shown && one.values[row] > 0,
  ).map((one) => `${one.title} ${shown(one, row)}`);
  const shape = layers.column("output_shapes")?.values[row];
  return [
    layers.label(row),
    layers.types[row],
    [`${column.title} ${shown(column, row)}`, share].filter(Boolean).join(", "),
    others.join(", "),
    shape ? `gives ${shape}` : "",
  ];
}

/** What the colours of the layers of a model mean; `others` are further entries. */
function legendOf(colours, types, ...others) {
  const own = [...colours].filter(([type]) => types.includes(type));
  const items = own.filter(([, place]) => place < COLOURS).map(([type, place]) => [`c${place}`, type]);
  if (items.length < own.length) items.push([`c${COLOURS}`, counted(own.length - items.length, "other type")]);
  return legend([...items, ...others], "Types of layers");
}

class ModelMap {
  /**
   * `options`: `isLinked`, whether the chosen layer is shown, and the address has what is shown; `name`, whose map it is;
   * `thing`, what a row is; `column`, what layers are sized by; `colours`, by the type of a layer.
   */
  constructor(place, tools, layers, options = {}) {
    const usual = { isLinked: true, thing: "layer", column: layers.usualSize, colours: coloursOf(layers) };
    const { name = "the model", ...rest } = { ...usual, ...options };
    Object.assign(this, rest, { layers, place });
    this.root = layers.tree.roots[0];
    this.focus = this.root;
    if (this.isLinked) this.remember();
    tools?.replaceChildren(sizeChoice("Sized by", layers.sizes, this.column, (size) => this.set({ column: size })));
    this.trail = el("nav", { class: "trail", "aria-label": "Zoom" });
    this.picture = el("div", {
      class: "icicle",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of the model",
      "aria-label": `Map of ${name}: arrow keys move between layers, Enter zooms in, Escape zooms out`,
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.hover(event),
      onpointerleave: () => tip.hide(),
      onclick: (event) => this.click(event),
    });
    this.said = el("p", { class: "said", role: "status" });
    place.replaceChildren(
      this.trail,
      this.picture,
      this.said,
      legendOf(this.colours, layers.types, ["group", "layers with others inside"]),
    );
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
    address.set({
      size: this.column === layers.usualSize ? "" : this.column.key,
      zoom: this.root === layers.tree.roots[0] ? "" : layers.path(this.root),
    });
  }

  /** Draw boxes by parts of the width, so that they keep their places on paper. */
  layOut() {
    this.width = Math.max(200, this.place.clientWidth);
    this.boxes = icicle(this.layers, this.column, this.root, this.width);
    if (!this.isDrawn(this.focus)) this.focus = this.root;
    this.picture.replaceChildren(...this.boxes.map((box) => this.draw(box)));
    this.picture.style.height = `${LEVEL * (1 + Math.max(...this.boxes.map((box) => box.level)))}px`;
    this.drawTrail();
    this.mark();
  }

  isDrawn(row) {
    return row >= 0 && this.boxes.some((box) => box.row === row);
  }

  draw(box) {
    const { tree, types } = this.layers;
    const kind = box.row < 0 ? "rest" : tree.children[box.row].length ? "group" : `c${this.colours.get(types[box.row])}`;
    box.node = el("div", { class: `piece ${kind}` }, box.w < NAMED ? "" : this.text(box));
    box.node.box = box;
    Object.assign(box.node.style, {
      left: `${(100 * box.x) / this.width}%`,
      width: `${(100 * box.w) / this.width}%`,
      top: `${LEVEL * box.level}px`,
    });
    return box.node;
  }

  text(box) {
    if (box.row < 0) return counted(box.more, this.thing);
    const name = this.layers.name(box.row);
    return box.w > 150 ? `${name}  ${this.lines(box.row)[2]}` : name;
  }

  drawTrail() {
    const around = [...this.layers.tree.around(this.root)].reverse();
    const steps = around.map(
      (row) => el("button", { type: "button", class: "link", onclick: () => this.zoom(row) }, this.layers.name(row)),
    );
    const here = el("span", { "aria-current": "true" }, this.layers.name(this.root));
    const long = steps.length > 6 ? [steps[0], el("span", {}, "…"), ...steps.slice(-4)] : steps;
    this.trail.replaceChildren(...long, here, el("span", { class: "value" }, this.lines(this.root)[2]));
  }

  /** Mark the rows that are chosen, and the one that the keys are at. */
  mark() {
    const { marked } = this;
    for (const { node, row } of this.boxes) {
      node.classList.toggle("picked", row >= 0 && marked.includes(row));
      node.classList.toggle("at", row === this.focus);
    }
  }

  // Mouse and keyboard -----------------------------------------------------------------------------------------------

  hover(event) {
    const { box } = event.target;
    if (!box) return tip.hide();
    const rest = () => [
      `${counted(box.more, this.thing)} too narrow to draw`,
      `inside ${this.layers.label(box.inside)}: zoom in to see them`,
    ];
    return tip.show(box.row < 0 ? rest() : this.lines(box.row), event.clientX, event.clientY);
  }

  click(event) {
    const { box } = event.target;
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
    const inside = this.root === this.focus ? [this.focus] : tree.children[tree.parents[this.focus]] ?? tree.roots;
    const beside = inside.filter((row) => this.isDrawn(row));
    const place = beside.indexOf(this.focus);
    const moves = {
      ArrowLeft: beside[place - 1],
      ArrowRight: beside[place + 1],
      ArrowUp: this.focus === this.root ? undefined : tree.parents[this.focus],
      ArrowDown: tree.children[this.focus].find((row) => this.isDrawn(row)),
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
    this.mark();
    this.say();
  }

  say() {
    this.said.textContent = this.lines(this.focus).slice(0, 4).filter(Boolean).join(", ");
  }

  /** Show a layer that was chosen elsewhere, zooming out as far as it takes. */
  find(row) {
    const { parents } = this.layers.tree;
    if (row >= 0 && !this.isDrawn(row)) {
      const around = new Set([row, ...this.layers.tree.around(row)]);
      let { root } = this;
      while (!around.has(root) && parents[root] >= 0) root = parents[root];
      this.set({ root });
    }
    if (this.isDrawn(row)) this.focus = row;
    this.mark();
  }
}
