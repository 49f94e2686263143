// What a graph shows of a model: which operators are in which box, and which box reads which. A layer is a box that may
// be open, with boxes of its own inside; blocks that are alike are one box at first.

/** As many boxes as there should be to look at, at first. */
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

class GraphBoxes {
  /** `column` is what boxes are sized by, `open` has the keys of the open ones; both may be set anew. */
  constructor(operators, layers, inputs) {
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
  }

  /** The boxes of the whole model. */
  whole() {
    return this.level(this.root, this.all);
  }

  /** Open the largest layers until there are some boxes to look at. */
  openAtFirst() {
    this.open.add(this.root);
    for (let round = 0; round < 4; round += 1) {
      const boxes = this.flat(this.whole()).filter((box) => !box.isOpen);
      const largest = boxes.filter((box) => box.canOpen && !box.alike).sort((one, two) => two.value - one.value)[0];
      if (boxes.length >= FEW_BOXES || !largest) return;
      this.open.add(largest.key);
    }
  }

  openAll() {
    this.open = new Set(this.layers.tree.order.filter((row) => this.layers.tree.children[row].length));
    for (const alike of this.blocks.values()) this.open.add(`${alike[0]}+`);
  }

  /** Close all boxes but that of the model. */
  closeAll() {
    this.open = new Set([this.root]);
  }

  /** Open or close a box; what holds nothing but blocks that are alike is opened with them. */
  toggle(box) {
    if (this.open.delete(box.key)) return;
    this.open.add(box.key);
    const [only, ...others] = box.alike ? [] : this.level(box.row, box.ops).boxes.filter((one) => one.ops.length);
    if (only?.alike && !others.length) this.open.add(only.key);
  }

  /** The boxes of a level, each with those inside it. */
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
      const sources = new Set(this.reads[op].map((read) => boxOf.get(read) ?? entry));
      const place = this.placeOf(row, op);
      let box = newest.get(place.key);
      if (!box || [...sources].some((source) => source !== box && reaches(source, box))) {
        box = { ...place, around: row, sources: new Set(), ops: [] };
        newest.set(place.key, box);
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

  /** Which box of a layer an operator is in: of a layer inside, of a block of them, or of operators of its own. */
  placeOf(row, op) {
    const child = this.inside(row, op);
    if (child < 0) return { key: this.work.macs[op] ? `op ${op}` : this.operators[op], row: -1, alike: null };
    const alike = this.blocks.get(child);
    const isBlock = alike && !this.open.has(`${alike[0]}+`);
    return { key: isBlock ? `${alike[0]}+` : child, row: child, alike: isBlock ? alike : null };
  }

  /** Say what stands on a box, and look into it where it is open. */
  describe(box) {
    if (!box.ops.length) return;
    if (box.row < 0) this.describeOperators(box);
    else if (box.alike) this.describeBlocks(box);
    else this.describeLayer(box);
  }

  describeOperators(box) {
    const name = this.operators[box.ops[0]].replace(/^aten\.|\.\w+$/g, "");
    const work = this.work[this.column?.key];
    box.label = box.ops.length > 1 ? `${box.ops.length} x ${name}` : name;
    box.value = box.ops.reduce((sum, op) => sum + (work?.[op] ?? 0), 0);
  }

  describeBlocks(box) {
    const { layers } = this;
    const last = box.alike.at(-1);
    box.label = `${this.nameIn(box.around, box.row)} … ${layers.name(last)}`;
    box.type = `${box.alike.length} x ${layers.types[last]}`;
    this.size(box, box.alike);
    box.under = layers.column("calls")?.values[last] > 1 ? "" : this.shape(last);
    box.canOpen = true;
  }

  describeLayer(box) {
    const { layers, row = box.row } = this;
    const calls = layers.column("calls")?.values[row] ?? 1;
    box.label = this.nameIn(box.around, row);
    box.type = layers.types[row];
    this.size(box, [row]);
    box.under = calls > 1 ? `in ${calls} calls` : this.shape(row); // the shape is known of the first call alone
    box.canOpen = layers.tree.children[row].length > 0 || box.ops.length > 1;
    box.isOpen = this.open.has(row);
    if (box.isOpen) box.inner = this.level(row, box.ops);
  }

  /** Give a box the value of its layers, and their share of the whole. */
  size(box, rows) {
    const { column } = this;
    box.value = column ? rows.reduce((sum, row) => sum + weightOf(column, row), 0) : 0;
    box.share = column ? shareText(column, box.value) : "";
  }

  shape(row) {
    return this.layers.column("output_shapes")?.values[row] ?? "";
  }

  /** The name of a layer inside another one. */
  nameIn(around, row) {
    return this.layers.path(row).slice(this.layers.path(around).length).replace(/^\./, "") || ROOT;
  }
}
