// A table of rows in a tree. Only the rows in view are in the document, so that any number of them stays fluid.

const ROW_HEIGHT = 28;
const OVERSCAN = 8;
const PRINTED = 5000;
const MOST_AT_FIRST = 60;
let tables = 0;

/** Whether a page is about to be printed: then all rows are drawn, however the window changes meanwhile. */
const paper = { isNear: false };

class TreeTable {
  /** Those in the page. */
  static get all() {
    return [...document.querySelectorAll('[role="treegrid"]')].map((grid) => grid.tree);
  }

  /**
   * `layers` has the rows; `options`: caption, `about` (whose rows they are, in a download), `prefix` (of names in the
   * address), and `keep(row)`, which rows are to be seen at all.
   */
  constructor(place, tools, layers, options) {
    Object.assign(this, { layers, options, tree: layers.tree, id: `table-${(tables += 1)}` });
    this.collapsed = new Set();
    this.active = 0;
    this.onChoose = options.onChoose ?? (() => {});
    this.columns = layers.columns.filter((column) => column.shown);
    this.remember();
    this.build(place, tools);
    this.openTo(this.depthAtFirst());
  }

  /** Start with the filter, the order and the form that the address has. */
  remember() {
    const of = (name) => address.get(`${this.options.prefix}${name}`);
    const key = of("sort").replace(/^-/, "");
    const known = ["path", "type"].includes(key) || this.layers.column(key);
    this.sorting = known ? { key, down: of("sort").startsWith("-") } : { key: null, down: true };
    this.words = of("q").trim().toLowerCase();
    this.leaves = of("rows") === "leaves";
    this.flat = of("rows") === "flat";
  }

  /** Write into the address what is looked at. */
  note() {
    const { prefix } = this.options;
    const sort = this.sorting.key ? `${this.sorting.down ? "-" : ""}${this.sorting.key}` : "";
    address.set({ [`${prefix}q`]: this.words, [`${prefix}sort`]: sort, [`${prefix}rows`]: this.leaves ? "leaves" : this.flat ? "flat" : "" });
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
      this.columnChoice(),
      downloads(this.options.about, this),
      this.count,
    );
    this.head = el("thead");
    this.body = el("tbody");
    this.widths = el("colgroup");
    this.grid = el("table", { role: "treegrid", tabindex: "0", "aria-label": this.options.caption, onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) }, this.widths, this.head, this.body);
    this.grid.tree = this;
    this.scroller = el("div", { class: "scroll", onscroll: () => this.later() }, this.grid);
    place.replaceChildren(this.scroller);
    this.heads();
  }

  columnChoice() {
    const boxes = this.layers.columns.map((column) =>
      tick(column.title, column.shown, (on) => {
        column.shown = on;
        this.columns = this.layers.columns.filter((one) => one.shown);
        this.heads();
        this.draw();
      }),
    );
    return el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, ...boxes));
  }

  /** Draw the heads, in the room that the page has. */
  heads() {
    this.keys = orderOf(this.columns);
    const widths = fitted(this.layers, this.keys, this.scroller.clientWidth || innerWidth);
    this.tight = new Set(this.keys.filter((_, place) => widths[place] < ROOM_FOR_SHARE));
    this.widths.replaceChildren(...widths.map((width) => {
      const col = el("col");
      col.style.width = `${width}px`;
      return col;
    }));
    this.grid.style.width = `${widths.reduce((sum, width) => sum + width, 0)}px`;
    const cells = this.keys.map((key) => this.headCell(key, this.layers.column(key)));
    this.head.replaceChildren(el("tr", { role: "row", "aria-rowindex": "1" }, ...cells));
    this.grid.setAttribute("aria-colcount", this.keys.length);
  }

  headCell(key, column) {
    const lines = titleLines(column, key);
    const words = el("span", {}, ...lines.map((line) => el("span", { class: "line" }, line)));
    const button = el("button", { type: "button", title: lines.join(", "), "data-key": key, onclick: () => this.sort(key) }, words, el("span", { class: "arrow", "aria-hidden": "true" }));
    return el("th", { scope: "col", role: "columnheader", class: column?.numeric ? "number" : key === "path" ? "name-head" : null, "aria-sort": this.sortOf(key) }, button);
  }

  sortOf(key) {
    if (this.sorting.key !== key) return "none";
    return this.sorting.down ? "descending" : "ascending";
  }

  /** Sort by a column: numbers first from the top, names from A; once more the other way; then as in the model. */
  sort(key) {
    const first = this.layers.column(key)?.numeric ?? false;
    const { key: before, down } = this.sorting;
    if (before !== key) this.sorting = { key, down: first };
    else this.sorting = down === first ? { key, down: !first } : { key: null, down: true };
    this.heads();
    this.update();
    this.note();
    this.head.querySelector(`[data-key="${CSS.escape(key)}"]`).focus();
  }

  compare() {
    const { key, down } = this.sorting;
    const values = key === "path" ? this.layers.names : key === "type" ? this.layers.types : this.layers.column(key).values;
    const weight = key === "path" && this.listed ? (row) => this.layers.path(row) : (row) => values[row];
    const sign = down ? -1 : 1;
    const absent = (value) => value === null || value === undefined || Number.isNaN(value);
    return (one, two) => {
      const [a, b] = [weight(one), weight(two)];
      if (absent(a) || absent(b)) return absent(a) - absent(b) || one - two;
      return a === b ? one - two : a < b ? -sign : sign;
    };
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
    const found = this.matching();
    const sorted = this.sorting.key ? (rows) => [...rows].sort(this.compare()) : (rows) => rows;
    const held = this.rows?.[this.active];
    this.found = found;
    if (this.listed) this.rows = sorted(this.tree.order.filter((row) => !found || found.has(row)));
    else this.rows = this.nested(found, sorted);
    this.active = Math.max(0, held === undefined ? 0 : this.rows.indexOf(held));
    const matches = found ? found.size : this.tree.count;
    this.count.textContent = found ? `${matches.toLocaleString("en-US")} of ${counted(this.tree.count, "layer")}` : counted(this.tree.count, "layer");
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
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

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw() {
    const all = paper.isNear;
    const seen = Math.ceil(Math.min(0.72 * innerHeight, 720) / ROW_HEIGHT); // as high as the style sheet lets it grow
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const first = all ? 0 : Math.min(top, Math.max(0, this.rows.length - seen - OVERSCAN));
    const last = all ? Math.min(this.rows.length, PRINTED) : Math.min(this.rows.length, first + seen + 2 * OVERSCAN);
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.row(at));
    if (!this.rows.length) drawn.push(el("tr", {}, el("td", { class: "none", colspan: this.columns.length + 2 }, "No layer matches.")));
    if (all && last < this.rows.length) drawn.push(el("tr", {}, el("td", { colspan: this.columns.length + 2 }, `${counted(this.rows.length - last, "more row")}, not printed`)));
    this.body.replaceChildren(this.gap(first), ...drawn, this.gap(all ? 0 : this.rows.length - last));
    const shown = this.active >= first && this.active < last;
    if (shown) this.grid.setAttribute("aria-activedescendant", `${this.id}-${this.rows[this.active]}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  gap(rows) {
    const row = el("tr", { class: "gap", "aria-hidden": "true" });
    row.style.height = `${rows * ROW_HEIGHT}px`;
    return row;
  }

  row(at) {
    const row = this.rows[at];
    const inside = !this.listed && this.tree.children[row].length > 0;
    const open = inside && (this.words ? true : !this.collapsed.has(row));
    const kind = this.options.kind?.(row) ?? "";
    const dim = this.found && !this.found.has(row) ? "around" : "";
    const picked = this.options.linked && chosen.row === row;
    const cells = this.keys.slice(1).map((key) => (key === "type" ? this.typeCell(row) : this.cell(this.layers.column(key), row)));
    return el(
      "tr",
      { id: `${this.id}-${row}`, role: "row", "data-at": at, class: `${kind} ${dim} ${at === this.active ? "active" : ""}`, "aria-level": this.listed ? 1 : this.tree.depths[row] + 1, "aria-rowindex": at + 2, "aria-expanded": inside ? String(open) : null, "aria-selected": String(picked) },
      this.nameCell(row, inside, open),
      ...cells,
    );
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

  click(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line) return;
    this.active = Number(line.dataset.at);
    const row = this.rows[this.active];
    this.grid.focus({ preventScroll: true });
    if (event.target.closest(".twist:not(.leaf)")) this.toggle(row);
    else this.pick(row);
  }

  toggle(row, open = this.collapsed.has(row)) {
    if (open) this.collapsed.delete(row);
    else this.collapsed.add(row);
    this.update();
  }

  pick(row) {
    this.onChoose(row);
    this.draw();
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.rows[this.active];
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (row === undefined) return;
    if (event.shiftKey && ["ArrowLeft", "ArrowRight"].includes(event.key)) this.scroller.scrollLeft += event.key === "ArrowRight" ? 120 : -120;
    else if (event.key in steps) this.go(this.active + steps[event.key]);
    else if (event.key === "ArrowRight") this.right(row);
    else if (event.key === "ArrowLeft") this.left(row);
    else if (event.key === "Enter" || event.key === " ") this.pick(row);
    else return;
    event.preventDefault();
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

  go(at) {
    this.active = Math.max(0, Math.min(at, this.rows.length - 1));
    this.reveal(this.active);
    this.draw();
  }

  reveal(at) {
    const head = this.head.offsetHeight;
    const top = at * ROW_HEIGHT;
    const room = this.scroller.clientHeight - head - ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
  }

  /** Bring a row into view, whatever is collapsed around it. */
  find(row) {
    if (row < 0) return this.draw();
    if (!this.rows.includes(row)) {
      for (const outer of this.tree.around(row)) this.collapsed.delete(outer);
      this.update();
    }
    const at = this.rows.indexOf(row);
    if (at < 0) return this.draw();
    this.active = at;
    this.reveal(at);
    return this.draw();
  }
}
