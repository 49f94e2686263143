// The graph of a model: what runs in a layer, and what reads what. A layer is a box that opens where it is; blocks that
// are alike are one box at first. Each box has a picture of its own inside, so that opening one moves no other around.

const LONGEST_LABEL = 34;
const FEW_BOXES = 8;

/** For each block that follows one of its kind, or is followed by one: all of them, in order. */
function blocksOf(layers, kinds) {
  const blocks = new Map();
  for (const inside of layers.tree.children) {
    for (let from = 0, to; from < inside.length; from = to) {
      for (to = from + 1; to < inside.length && kinds[inside[to]] === kinds[inside[from]]; to += 1);
      const alike = inside.slice(from, to);
      if (alike.length > 1 && layers.tree.children[inside[from]].length) for (const row of alike) blocks.set(row, alike);
    }
  }
  return blocks;
}

/** Whether a box gets something from another one, over any number of boxes between. */
function reaches(from, to) {
  const [waiting, met] = [[from], new Set([from])];
  while (waiting.length) {
    const box = waiting.pop();
    if (box === to) return true;
    for (const source of box.sources) {
      if (met.has(source)) continue;
      met.add(source);
      waiting.push(source);
    }
  }
  return false;
}

class Graph {
  constructor(place, tools, operators, layers, inputs) {
    Object.assign(this, { layers, inputs, column: layers.usualSize, blocks: blocksOf(layers, unpacked(operators.kinds)), open: new Set() });
    this.operators = unpacked(operators.names);
    this.rows = unpacked(operators.layers);
    this.work = { macs: unpacked(operators.macs), flops: unpacked(operators.flops) };
    const phases = unpacked(operators.phases);
    this.all = this.rows.map((_, op) => op).filter((op) => phases[op] === "forward" && this.rows[op] >= 0);
    this.reads = unpacked(operators.reads).map((steps, op) => steps.map((step) => (step ? op - step : -1)));
    this.readers = this.operators.map(() => []);
    this.reads.forEach((reads, op) => reads.forEach((read) => this.readers[read]?.push(op)));
    this.root = layers.tree.roots[0];
    this.openAtFirst();
    tools.replaceChildren(
      sizeChoice("Colored by", layers.sizes, this.column, (size) => this.set({ column: size })),
      el("button", { type: "button", onclick: () => this.openAll() }, "Open all"),
      el("button", { type: "button", onclick: () => this.set({ open: new Set([this.root]) }) }, "Close all"),
      tick("Fit", false, (isWhole) => this.scroller.classList.toggle("fit", isWhole)),
    );
    this.scroller = el("div", { class: "scroll graph", onclick: (event) => this.click(event), onkeydown: (event) => this.key(event), onpointermove: (event) => this.hover(event), onpointerleave: () => tip.hide() });
    place.replaceChildren(el("p", { class: "lead" }, "What reads what, from the inputs down. A click opens a layer, and closes it; blocks that are alike are one box. The stronger the color, the larger the part of the whole."), this.scroller);
    redrawn(this.scroller, () => this.draw());
    this.scroller.scrollLeft = 10 + this.boxes[0].x - this.scroller.clientWidth / 2; // of a wide graph the inputs are in view
  }

  set(state) {
    Object.assign(this, state);
    this.draw();
  }

  // What there is to see ---------------------------------------------------------------------------------------------

  /** Open the largest layers until there are some boxes to look at. */
  openAtFirst() {
    this.open.add(this.root);
    for (let round = 0; round < 4; round += 1) {
      const boxes = this.flat(this.level(this.root, this.all)).filter((box) => !box.isOpen);
      const largest = boxes.filter((box) => box.canOpen && !box.alike).sort((one, two) => two.value - one.value)[0];
      if (boxes.length >= FEW_BOXES || !largest) return;
      this.open.add(largest.key);
    }
  }

  openAll() {
    const open = new Set(this.layers.tree.order.filter((row) => this.layers.tree.children[row].length));
    for (const alike of this.blocks.values()) open.add(`${alike[0]}+`);
    this.set({ open });
  }

  flat(level) {
    return level.boxes.flatMap((box) => (box.inner ? [box, ...this.flat(box.inner)] : [box]));
  }

  /**
   * The outermost layer inside another one that an operator is in; -1 where that one does it itself. A list of layers
   * that nobody calls is none.
   */
  inside(row, op) {
    const calls = this.layers.column("calls")?.values;
    let child = -1;
    for (let at = this.rows[op]; at >= 0 && at !== row; at = this.layers.tree.parents[at]) if (calls?.[at] !== 0) child = at;
    return child;
  }

  /**
   * What some operators do in a layer, as boxes that read each other without a circle: one for each layer inside, for
   * each block of them, and for each operator of its own. A layer that is called again after others is a box again.
   */
  level(row, ops) {
    const entry = { key: "entry", label: row === this.root ? `inputs ${this.inputs}` : "", sources: new Set(), ops: [] };
    const [boxes, newest, boxOf] = [[entry], new Map(), new Map()];
    for (const op of ops) {
      const child = this.inside(row, op);
      const alike = this.blocks.get(child);
      const isBlock = alike && !this.open.has(`${alike[0]}+`);
      const key = child < 0 ? (this.work.macs[op] ? `op ${op}` : this.operators[op]) : isBlock ? `${alike[0]}+` : child;
      const sources = new Set(this.reads[op].map((read) => boxOf.get(read) ?? entry));
      let box = newest.get(key);
      if (!box || [...sources].some((source) => source !== box && reaches(source, box))) {
        box = { key, row: child, around: row, alike: isBlock ? alike : null, sources: new Set(), ops: [] };
        newest.set(key, box);
        boxes.push(box);
      }
      box.ops.push(op);
      boxOf.set(op, box);
      for (const source of sources) if (source !== box) box.sources.add(source);
    }
    const exit = { key: "exit", label: "", sources: new Set(), ops: [] };
    for (const op of ops) if (this.readers[op].some((reader) => !boxOf.has(reader))) exit.sources.add(boxOf.get(op));
    if (exit.sources.size) boxes.push(exit);
    for (const box of boxes) this.describe(box);
    return { boxes };
  }

  /** Say what stands on a box, and look into it where it is open. */
  describe(box) {
    const { layers, column } = this;
    if (!box.ops.length) return;
    if (box.row < 0) {
      const name = this.operators[box.ops[0]].replace(/^aten\.|\.\w+$/g, "");
      box.label = box.ops.length > 1 ? `${box.ops.length} x ${name}` : name;
      box.value = box.ops.reduce((sum, op) => sum + (this.work[column?.key]?.[op] ?? 0), 0);
      return;
    }
    const [first, last] = [box.row, box.alike?.at(-1) ?? box.row];
    const rows = box.alike ?? [box.row];
    const name = (row) => layers.path(row).slice(layers.path(box.around).length).replace(/^\./, "") || ROOT;
    const calls = layers.column("calls")?.values[first] ?? 1;
    box.label = box.alike ? `${name(first)} … ${layers.name(last)}` : name(first);
    box.value = column ? rows.reduce((sum, row) => sum + weightOf(column, row), 0) : 0;
    const type = layers.types[first];
    box.type = box.alike ? `${rows.length} x ${type}` : type;
    const shape = (calls === 1 && layers.column("output_shapes")?.values[last]) || ""; // known of the first call alone
    const share = column?.whole && box.value ? percent(box.value / column.whole) : "";
    box.under = [shape, calls > 1 && !box.alike ? `in ${calls} calls` : ""].filter(Boolean).join("  ");
    box.share = share;
    box.canOpen = Boolean(box.alike) || layers.tree.children[first].length > 0 || box.ops.length > 1;
    box.isOpen = !box.alike && this.open.has(first);
    if (box.isOpen) box.inner = this.level(first, box.ops);
  }

  // Drawing ----------------------------------------------------------------------------------------------------------

  draw() {
    const level = this.level(this.root, this.all);
    const { w, h } = arrange(level, (box) => this.measure(box));
    this.boxes = [];
    const most = Math.max(...this.flat(level).filter((box) => !box.isOpen).map((box) => box.value ?? 0));
    const root = svg("svg", { class: "chart", width: w + 20, height: h + 20, viewBox: `0 0 ${w + 20} ${h + 20}`, role: "group", "aria-label": "Graph of the model" });
    const head = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0,0L8,4L0,8Z" }));
    root.append(svg("defs", {}, head));
    this.put(root, level, 10, 10, most);
    root.dataset.boxes = this.boxes.length;
    this.scroller.replaceChildren(root);
    this.find(chosen.row);
  }

  measure(box) {
    if (!box.label) return [box.ops.length ? 40 : 0, 0];
    const upper = textWidth(cut(box.label), 12, "600") + (box.type ? 8 + textWidth(cut(box.type), 12) : 0) + (box.canOpen ? 18 : 0);
    const lower = textWidth(cut(box.under ?? ""), 11.5) + (box.share ? 14 + textWidth(box.share, 11.5, "600") : 0);
    return [Math.max(upper, lower) + 18, lower ? 40 : 24];
  }

  put(parent, level, left, top, most) {
    for (const { points, box } of level.lines) parent.append(svg("path", { class: "edge", d: pathOf(points, left, top), "marker-end": box.label ? "url(#arrow)" : null }));
    const ends = new Set(level.lines.flatMap(({ source, box }) => [source, box]));
    for (const box of level.boxes) {
      const [x, y] = [left + box.x - box.w / 2, top + box.y];
      if (!box.label && ends.has(box)) parent.append(svg("circle", { class: "port", cx: left + box.x, cy: y, r: 2.5 }));
      if (!box.label) continue;
      const node = svg("g", { class: `box ${box.isOpen ? "open" : ""} ${box.row < 0 || !box.ops.length ? "op" : ""}`, "data-box": this.boxes.length });
      if (box.canOpen) fill(node, { tabindex: "0", role: "button", "aria-expanded": String(Boolean(box.isOpen)), "aria-label": `${box.label}, ${box.type}` }, []);
      const frame = svg("rect", { x, y, width: box.w, height: box.h, rx: 5 });
      if (!box.isOpen && box.value > 0) frame.style.fill = `color-mix(in srgb, var(--heat) ${Math.round(6 + (74 * box.value) / most)}%, var(--panel))`;
      node.append(frame, svg("text", { x: x + 9, y: y + 16 }, svg("tspan", { class: "strong" }, cut(box.label)), box.type ? svg("tspan", { dx: 8 }, cut(box.type)) : null));
      if (!box.isOpen) {
        node.append(svg("text", { x: x + 9, y: y + 32, class: "small" }, cut(box.under ?? "")));
        node.append(svg("text", { x: x + box.w - 9, y: y + 32, class: "small strong", "text-anchor": "end" }, box.share ?? ""));
      }
      if (box.canOpen) node.append(svg("text", { x: x + box.w - 15, y: y + 16 }, box.isOpen ? "−" : "+"));
      this.boxes.push({ ...box, node });
      parent.append(node);
      if (box.inner) this.put(parent, box.inner, x + box.inner.left, y + box.inner.top, most);
    }
  }

  // Mouse and keyboard -----------------------------------------------------------------------------------------------

  boxAt(event) {
    return this.boxes[event.target.closest("[data-box]")?.dataset.box];
  }

  click(event) {
    const box = this.boxAt(event);
    if (!box) return;
    if (box.row >= 0) chosen.choose(box.row, this);
    if (box.canOpen) this.toggle(box);
  }

  key(event) {
    if (event.key !== "Enter" && event.key !== " ") return;
    const box = this.boxAt(event);
    if (!box) return;
    event.preventDefault();
    this.click(event);
    this.boxes.find((one) => one.key === box.key)?.node.focus();
  }

  /** Open or close a box, which stays where it is on the screen; the first of blocks stands for them. */
  toggle(box) {
    const before = box.node.getBoundingClientRect();
    if (this.open.delete(box.key)) return this.redraw(box, before);
    this.open.add(box.key);
    const [only, ...others] = box.alike ? [] : this.level(box.row, box.ops).boxes.filter((one) => one.ops.length);
    if (only?.alike && !others.length) this.open.add(only.key);
    return this.redraw(box, before);
  }

  redraw(box, before) {
    tip.hide();
    this.draw();
    const after = this.boxes.find((one) => one.row === box.row)?.node.getBoundingClientRect();
    if (!after) return;
    this.scroller.scrollTop += after.top - before.top;
    this.scroller.scrollLeft += after.left - before.left;
  }

  hover(event) {
    const box = this.boxAt(event);
    if (!box) return tip.hide();
    const lines = box.row >= 0 && this.column ? linesOf(this.layers, box.row, this.column) : [box.label];
    if (box.alike) lines[0] = `${lines[0]}, and ${box.alike.length - 1} more like it`;
    return tip.show(lines, event.clientX, event.clientY);
  }

  /** Mark the box of a layer, or the closed one that it is in. */
  find(row) {
    const around = row < 0 ? [] : [row, ...this.layers.tree.around(row)];
    const at = (one) => this.boxes.filter((box) => (box.alike ?? [box.row]).includes(one));
    const marked = new Set(around.map(at).find((boxes) => boxes.length) ?? []);
    for (const box of this.boxes) box.node.classList.toggle("picked", marked.has(box));
  }
}

const cut = (text) => (text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text);

/** A line from box to box, through the gaps that were left for it. */
function pathOf(points, left, top) {
  const at = points.map(([x, y]) => [(left + x).toFixed(1), top + y]);
  return at.reduce((path, [x, y], place) => {
    if (!place) return `M${x},${y}`;
    const middle = (at[place - 1][1] + y) / 2;
    return at[place - 1][0] === x ? `${path}V${y}` : `${path}C${at[place - 1][0]},${middle} ${x},${middle} ${x},${y}`;
  }, "");
}
