// A table of rows in a tree, or of all of them below each other with their whole paths.

const MOST_AT_FIRST = 60;
let tables = 0;

class TreeTable extends Grid {
  thing = "layer";
  most = 5000;
  collapsed = new Set();

  /** Those in the page. */
  static get all() {
    return [...document.querySelectorAll('[role="treegrid"]')].map((grid) => grid.tree);
  }

  /**
   * `layers` has the rows; `options`: caption, `about` (whose rows they are, in a download), `prefix` (of names in the
   * address), and `keep(row)`, which rows are to be seen at all.
   */
  constructor(place, tools, layers, options) {
    super();
    Object.assign(this, { layers, options, tree: layers.tree });
    this.remember();
    this.build(place, tools);
    this.openTo(this.depthAtFirst());
  }

  /** Start with the filter, the order and the form that the address has. */
  remember() {
    const of = (name) => address.get(`${this.options.prefix}${name}`);
    const key = of("sort").replace(/^-/, "");
    this.order = ["path", "type"].includes(key) || this.layers.column(key) ? of("sort") : "";
    this.words = of("q").trim().toLowerCase();
    this.leaves = of("rows") === "leaves";
    this.flat = of("rows") === "flat";
  }

  /** Write into the address what is looked at. */
  note() {
    const { prefix } = this.options;
    address.set({ [`${prefix}q`]: this.words, [`${prefix}sort`]: this.order, [`${prefix}rows`]: this.leaves ? "leaves" : this.flat ? "flat" : "" });
  }

  /** Whether rows stand below each other with their whole paths, not inside their own. */
  get listed() {
    return this.flat || this.leaves;
  }

  depthAtFirst() {
    const met = new Array(this.tree.deepest + 1).fill(0);
    for (const depth of this.tree.depths) met[depth] += 1;
    let depth = 0;
    for (let rows = met[0] ?? 0; depth < this.tree.deepest && rows + met[depth + 1] <= MOST_AT_FIRST; depth += 1) rows += met[depth + 1];
    return Math.max(depth, 1);
  }

  build(place, tools) {
    const search = el("input", { type: "search", placeholder: "Filter by path or type", "aria-label": "Filter by path or type", value: this.words, oninput: () => this.filter(search.value) });
    const depths = Array.from({ length: Math.min(this.tree.deepest, 12) }, (_, depth) => [depth, String(depth)]);
    this.depthChoice = choice("Depth", [["", "…"], ...depths, ["all", "all"]], "", (value) => value !== "" && this.openTo(value === "all" ? Infinity : Number(value)));
    this.count = el("span", { class: "count", role: "status" });
    tools.replaceChildren(
      search,
      this.depthChoice,
      el("button", { type: "button", onclick: () => this.openTo(Infinity) }, "Expand all"),
      el("button", { type: "button", onclick: () => this.openTo(0) }, "Collapse all"),
      tick("Flat list", this.flat, (flat) => this.set({ flat })),
      tick("Leaves only", this.leaves, (leaves) => this.set({ leaves })),
      ...(this.options.tools?.(this) ?? []),
      this.columnChoice(this.layers.columns),
      downloads(this.options.about, this),
      this.count,
    );
    this.place(place, `table-${(tables += 1)}`, "treegrid", this.options.caption);
    this.grid.tree = this;
    this.heads();
  }

  get columns() {
    return this.layers.columns.filter((column) => column.shown);
  }

  /** Draw the heads, in the room that the page has. */
  heads() {
    this.keys = orderOf(this.columns);
    const widths = fitted(this.layers, this.keys, this.scroller.clientWidth || innerWidth);
    this.tight = new Set(this.keys.filter((_, place) => widths[place] < ROOM_FOR_SHARE));
    const cells = this.keys.map((key) => {
      const column = this.layers.column(key);
      return this.headCell(key, titleLines(column, key), column?.numeric ?? false, key === "path" ? "name-head" : null);
    });
    this.drawHeads(cells, widths);
  }

  setOrder(order) {
    this.order = order;
    this.heads();
    this.update();
    this.note();
  }

  compare() {
    const key = this.order.replace(/^-/, "");
    const values = key === "path" ? this.layers.names : key === "type" ? this.layers.types : this.layers.column(key).values;
    return orderBy(key === "path" && this.listed ? (row) => this.layers.path(row) : (row) => values[row], this.order.startsWith("-"));
  }

  filter(words) {
    this.words = words.trim().toLowerCase();
    this.update();
    this.note();
  }

  set(state) {
    Object.assign(this, state);
    this.update();
    this.note();
  }

  openTo(depth) {
    this.collapsed.clear();
    for (let row = 0; row < this.tree.count; row += 1) {
      if (this.tree.children[row].length && this.tree.depths[row] >= depth) this.collapsed.add(row);
    }
    this.update();
  }

  /** The rows that match, or null where nothing is asked for. */
  matching() {
    const { keep } = this.options;
    if (!this.words && !keep && !this.leaves) return null;
    const found = new Set();
    for (let row = 0; row < this.tree.count; row += 1) {
      if ((keep && !keep(row)) || (this.leaves && this.tree.children[row].length)) continue;
      if (!this.words || this.layers.label(row).toLowerCase().includes(this.words) || this.layers.types[row].toLowerCase().includes(this.words)) found.add(row);
    }
    return found;
  }

  update() {
    this.found = this.matching();
    const { found } = this;
    const sorted = this.order ? (rows) => [...rows].sort(this.compare()) : (rows) => rows;
    this.setRows(this.listed ? sorted(this.tree.order.filter((row) => !found || found.has(row))) : this.nested(found, sorted));
    const all = counted(this.tree.count, "layer");
    this.count.textContent = found ? `${found.size.toLocaleString("en-US")} of ${all}` : all;
    this.draw();
  }

  /** The rows of the tree in view; those around a match are shown with it. */
  nested(found, sorted) {
    let wanted = null;
    if (found) {
      wanted = new Set(found);
      for (const row of found) {
        for (const outer of this.tree.around(row)) {
          if (wanted.has(outer)) break;
          wanted.add(outer);
        }
      }
    }
    const rows = [];
    this.tree.walk((row) => {
      if (wanted && !wanted.has(row)) return false;
      rows.push(row);
      return this.words ? true : !this.collapsed.has(row);
    }, sorted);
    return rows;
  }

  row(at) {
    const row = this.rows[at];
    const inside = !this.listed && this.tree.children[row].length > 0;
    const open = inside && (this.words ? true : !this.collapsed.has(row));
    const kind = this.options.kind?.(row) ?? "";
    const dim = this.found && !this.found.has(row) ? "around" : "";
    const picked = this.options.linked && chosen.row === row;
    const cells = this.keys.slice(1).map((key) => (key === "type" ? this.typeCell(row) : this.cell(this.layers.column(key), row)));
    const expanded = inside ? String(open) : null;
    return this.line(at, [this.nameCell(row, inside, open), ...cells], `${kind} ${dim}`, picked, { "aria-level": this.listed ? 1 : this.tree.depths[row] + 1, "aria-expanded": expanded });
  }

  typeCell(row) {
    return el("td", { role: "gridcell", class: "type", title: this.layers.types[row] }, this.layers.types[row]);
  }

  nameCell(row, inside, open) {
    const name = this.listed ? this.layers.label(row) : this.layers.names[row] || "(model)";
    const twist = el("span", { class: inside ? `twist ${open ? "open" : ""}` : "twist leaf", "aria-hidden": "true" });
    const cell = el("th", { scope: "row", role: "rowheader", class: "name", title: this.layers.label(row) }, twist, el("span", {}, name));
    cell.style.paddingLeft = `${6 + (this.listed ? 0 : 14 * Math.min(this.tree.depths[row], 14))}px`;
    return cell;
  }

  cell(column, row) {
    const text = shown(column, row);
    if (!column.numeric) return el("td", { role: "gridcell", title: text, class: this.options.cellClass?.(column) }, text);
    const value = column.values[row];
    const share = column.share && column.whole > 0 && value > 0 ? value / column.whole : 0;
    const cell = el("td", { role: "gridcell", class: `number ${this.options.cellClass?.(column, row) ?? ""}`, title: share ? `${text}, ${percent(share)}` : null }, el("span", {}, text));
    if (share) {
      if (!this.tight.has(column.key)) cell.append(el("span", { class: "share" }, percent(share)));
      cell.style.setProperty("--part", `${Math.min(100, 100 * share).toFixed(2)}%`);
      cell.classList.add("bar-cell");
    }
    return cell;
  }

  press(row, target) {
    if (target.closest(".twist:not(.leaf)")) this.toggle(row);
    else this.pick(row);
  }

  toggle(row, open = this.collapsed.has(row)) {
    if (open) this.collapsed.delete(row);
    else this.collapsed.add(row);
    this.update();
  }

  pick(row) {
    this.options.onChoose?.(row);
    this.draw();
  }

  across(event, row) {
    if (event.shiftKey) super.across(event);
    else if (event.key === "ArrowRight") this.right(row);
    else this.left(row);
  }

  right(row) {
    const inside = !this.listed && this.tree.children[row].length > 0;
    if (inside && this.collapsed.has(row) && !this.words) this.toggle(row, true);
    else if (inside && this.tree.parents[this.rows[this.active + 1]] === row) this.go(this.active + 1);
  }

  left(row) {
    const inside = this.tree.children[row].length > 0;
    if (!this.listed && inside && !this.collapsed.has(row) && !this.words) this.toggle(row, false);
    else if (!this.listed) this.go(Math.max(0, this.rows.indexOf(this.tree.parents[row])));
  }

  /** Bring a row into view, whatever is collapsed around it. */
  find(row) {
    if (row < 0) return this.draw();
    if (!this.rows.includes(row)) {
      for (const outer of this.tree.around(row)) this.collapsed.delete(outer);
      this.update();
    }
    const at = this.rows.indexOf(row);
    return at < 0 ? this.draw() : this.go(at);
  }
}
