// The operators of a pass one after the other, in the layers that contain them: a map whose width is the time.

const WHAT_BOXES_ARE =
  "Each operator is as wide as the median of its seconds, and stands where it began. Several calls of it in a layer " +
  "are one box, at the first. Time in which no operator ran is left out.";

class Timeline extends ModelMap {
  constructor(place, { layers: owning, operators, ...tree }, layers) {
    const rows = new Rows(tree);
    const [names, owners, usual] = [unpacked(operators), unpacked(owning), coloursOf(layers)];
    const owner = (row) => (owners[row] < 0 ? ROOT : layers.label(owners[row]));
    const isLayer = (row) => !names[row] && (!row || owners[row] !== owners[0]); // the others are operators and phases
    rows.names.forEach((name, row) => rows.paths.set(row, isLayer(row) ? owner(row) : `${name} in ${owner(row)}`));
    const colours = new Map(rows.types.filter((_, row) => names[row]).map((type) => [type, usual.get(type) ?? COLOURS]));
    const body = el("div");
    place.replaceChildren(el("p", { class: "lead" }, WHAT_BOXES_ARE), body);
    super(body, null, rows, {
      isLinked: false,
      name: "a pass in time",
      thing: "part",
      column: rows.column("seconds"),
      colours,
    });
    Object.assign(this, { owners });
  }

  /** When a row begins: after all that stands before it, and before what is around it. */
  begin(row) {
    const { parents, children } = this.layers.tree;
    let seconds = 0;
    for (let at = row; parents[at] >= 0; at = parents[at]) {
      for (const before of children[parents[at]]) {
        if (before === at) break;
        seconds += weightOf(this.column, before);
      }
    }
    return seconds;
  }

  layOut() {
    super.layOut();
    const [from, long] = [this.begin(this.root), weightOf(this.column, this.root)];
    this.clock ??= el("div", { class: "clock", "aria-hidden": "true" });
    const ticks = ticksOf(from, from + long, Math.max(2, this.width / 130), "none");
    const written = writerOf(ticks, "s", "time");
    this.clock.replaceChildren(...ticks.map((tick) => {
      const part = (100 * (tick - from)) / long;
      const mark = el("span", { class: part * this.width > 100 * (this.width - 60) ? "last" : "" }, written(tick));
      mark.style.left = `${part}%`;
      return mark;
    }));
    this.picture.before(this.clock);
  }

  lines(row) {
    const [label, type, time] = linesOf(this.layers, row, this.column);
    const [macs, missing] = ["macs", "missing"].map((key) => this.layers.column(key));
    const work = macs ? `MACs ${macs.values[row] === null ? "not known" : shown(macs, row)}` : "";
    return [label, type, time, work, missing?.values[row]];
  }

  get marked() {
    return this.owners?.flatMap(
      (layer, row) => (layer === chosen.row && layer >= 0 && this.layers.tree.children[row].length ? [row] : []),
    ) ?? [];
  }

  pick(row) {
    chosen.choose(this.owners[row], this);
    this.zoom(row);
  }

  /** Show the chosen layer where it is in the picture already, or else the first time that it runs. */
  find() {
    const { marked } = this;
    super.find(marked.find((row) => this.isDrawn(row)) ?? marked[0] ?? -1);
  }
}
