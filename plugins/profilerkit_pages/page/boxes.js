// What a graph shows of a model: which operators are in which box, and which box reads which. A layer is a box that may
// be open, with boxes of its own inside; blocks that are alike are one box at first.

/** As many boxes as there should be to look at, at first. */
const FEW_BOXES = 8;
/** How many layers are opened at first, at the most. */
const MOST_OPENED = 4;

/** Rows in runs of one kind. */
function runsOf(rows, kinds) {
  const runs = [];
  for (const row of rows) {
    const last = runs.at(-1);
    if (last && kinds[last[0]] === kinds[row]) last.push(row);
    else runs.push([row]);
  }
  return runs;
}

/** For each block that follows one of its kind, or is followed by one: all of them, in order. */
function blocksOf(layers, kinds) {
  const { children } = layers.tree;
  const blocks = new Map();
  for (const run of children.flatMap((inside) => runsOf(inside, kinds))) {
    if (run.length > 1 && children[run[0]].length) for (const row of run) blocks.set(row, run);
  }
  return blocks;
}

/** The key of the box that blocks which are alike share. */
const keyOfBlocks = (alike) => `${alike[0]}+`;

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
  /** `inputs` is a text; `column` is what boxes are sized by, `open` has the keys of the open ones. */
  constructor(operators, layers, inputs) {
    this.layers = layers;
    this.inputs = inputs;
    this.column = layers.usualSize;
    this.root = layers.tree.roots[0];
    this.blocks = blocksOf(layers, unpacked(operators.kinds));
    this.readOperators(operators);
    this.open = new Set([this.root]);
    this.openLargest();
  }

  /** The operators of the forward pass, by their places: their names, layers and work, and what each reads. */
  readOperators(operators) {
    this.operators = unpacked(operators.names);
    this.rows = unpacked(operators.layers);
    this.work = { macs: unpacked(operators.macs), flops: unpacked(operators.flops) };
    const phases = unpacked(operators.phases);
    this.all = [...this.rows.keys()].filter((op) => phases[op] === "forward" && this.rows[op] >= 0);
    this.reads = unpacked(operators.reads).map((steps, op) => steps.map((step) => (step ? op - step : -1)));
    this.readers = this.operators.map(() => []);
    this.reads.forEach((reads, op) => reads.forEach((read) => this.readers[read]?.push(op)));
  }

  // What is open -----------------------------------------------------------------------------------------------------

  /** Open the largest layers until there are some boxes to look at. */
  openLargest() {
    for (let opened = 0; opened < MOST_OPENED; opened += 1) {
      const boxes = this.flat(this.whole()).filter((box) => !box.isOpen);
      const largest = boxes.filter((box) => box.canOpen && !box.alike).sort((one, two) => two.value - one.value)[0];
      if (boxes.length >= FEW_BOXES || !largest) return;
      this.open.add(largest.key);
    }
  }

  openAll() {
    const { order, children } = this.layers.tree;
    const blocks = [...this.blocks.values()].map(keyOfBlocks);
    this.open = new Set([...order.filter((row) => children[row].length), ...blocks]);
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

  // Which operators are in which box ---------------------------------------------------------------------------------

  /** The boxes of the whole model. */
  whole() {
    return this.level(this.root, this.all);
  }

  /** The boxes of a level, each with those inside it. */
  flat(level) {
    return level.boxes.flatMap((box) => (box.inner ? [box, ...this.flat(box.inner)] : [box]));
  }

  /**
   * What some operators do in a layer, as boxes that read each other without a circle: one for each layer inside, for
   * each block of them, and for each operator of its own. A layer that is called again after others is a box again.
   */
  level(row, ops) {
    const entry = { key: "entry", label: row === this.root ? `inputs ${this.inputs}` : "", sources: new Set(), ops: [] };
    const boxes = [entry];
    const [newest, boxOf] = [new Map(), new Map()]; // the last box of each key, and the box of each operator
    for (const op of ops) {
      const sources = new Set(this.reads[op].map((read) => boxOf.get(read) ?? entry));
      const place = this.placeOf(row, op);
      let box = newest.get(place.key);
      const makesCircle = box && [...sources].some((source) => source !== box && reaches(source, box));
      if (!box || makesCircle) {
        box = { ...place, around: row, sources: new Set(), ops: [] };
        newest.set(place.key, box);
        boxes.push(box);
      }
      box.ops.push(op);
      boxOf.set(op, box);
      for (const source of sources) if (source !== box) box.sources.add(source);
    }
    boxes.push(...this.exitOf(ops, boxOf));
    for (const box of boxes) if (box.ops.length) this.describe(box);
    return { boxes };
  }

  /** The box that gets what operators outside read, if any do. */
  exitOf(ops, boxOf) {
    const read = ops.filter((op) => this.readers[op].some((reader) => !boxOf.has(reader)));
    return read.length ? [{ key: "exit", label: "", sources: new Set(read.map((op) => boxOf.get(op))), ops: [] }] : [];
  }

  /** Which box of a layer an operator is in: of a layer inside, of blocks that are alike, or of operators of its own. */
  placeOf(row, op) {
    const child = this.inside(row, op);
    if (child < 0) return { key: this.work.macs[op] ? `op ${op}` : this.operators[op], row: -1, alike: null };
    const alike = this.blocks.get(child);
    if (alike && !this.open.has(keyOfBlocks(alike))) return { key: keyOfBlocks(alike), row: child, alike };
    return { key: child, row: child, alike: null };
  }

  /**
   * The outermost layer inside another one that an operator is in; -1 where that one does it itself. A list of layers
   * that nobody calls is none.
   */
  inside(row, op) {
    const calls = this.layers.column("calls")?.values;
    let child = -1;
    for (let at = this.rows[op]; at >= 0 && at !== row; at = this.layers.tree.parents[at]) {
      if (calls?.[at] !== 0) child = at;
    }
    return child;
  }

  // What stands on a box ---------------------------------------------------------------------------------------------

  /** Say what stands on a box, and look into it where it is open. */
  describe(box) {
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
    box.under = this.calls(last) > 1 ? "" : this.shape(last);
    box.canOpen = true;
  }

  describeLayer(box) {
    const { layers } = this;
    const { row } = box;
    box.label = this.nameIn(box.around, row);
    box.type = layers.types[row];
    this.size(box, [row]);
    box.under = this.calls(row) > 1 ? `in ${this.calls(row)} calls` : this.shape(row);
    box.canOpen = layers.tree.children[row].length > 0 || box.ops.length > 1;
    box.isOpen = this.open.has(row);
    if (box.isOpen) box.inner = this.level(row, box.ops);
  }

  /** Size boxes by a column of the layers from now on. */
  sizeBy(column) {
    this.column = column;
  }

  /** Give a box the value of its layers, and their share of the whole. */
  size(box, rows) {
    const { column } = this;
    box.value = column ? rows.reduce((sum, row) => sum + weightOf(column, row), 0) : 0;
    box.share = column ? shareText(column, box.value) : "";
  }

  calls(row) {
    return this.layers.column("calls")?.values[row] ?? 1;
  }

  /** The shape that a layer gives, which is known of its first call alone. */
  shape(row) {
    return this.layers.column("output_shapes")?.values[row] ?? "";
  }

  /** The name of a layer inside another one. */
  nameIn(around, row) {
    return this.layers.path(row).slice(this.layers.path(around).length).replace(/^\./, "") || ROOT;
  }
}
