// The table of every page: rows in a tree or in a list, sorted and filtered, of which only those in view are in the
// document, so that any number of them stays fluid.

const ROW_HEIGHT = 28;
const OVERSCAN = 8;
const MOST_AT_FIRST = 60;

/** Whether a page is about to be printed: then all rows are drawn, however the window changes meanwhile. */
const paper = { isNear: false };

let tables = 0;

class Table {
  active = 0;
  collapsed = new Set();

  /** Those in the page. */
  static get all() {
    return [...document.querySelectorAll("table.grid")].map((grid) => grid.table);
  }

  /**
   * `options`: `title`, of the table; `name`, the key and the title of the column of names; `thing`, what a row is;
   * `prefix`, of names in the address; `layerOf(row)`, what is chosen with a row; `keep(row)`, which rows are to be seen
   * at all; `cell(column, row)`, the content and the class of a cell that is no plain text; `kind(row)`, a class of a
   * row; `tools(table)`, what stands above it; `widest()`, the key of a column that takes room; `most`, how many rows are
   * printed.
   */
  constructor(place, tools, rows, options) {
    this.options = { name: ["path", "Layer"], thing: "layer", prefix: "", layerOf: null, most: 5000, ...options };
    Object.assign(this, { layers: rows, tree: rows.tree, isTree: rows.tree.deepest > 0, id: `table-${(tables += 1)}` });
    const [key, title] = this.options.name;
    this.names = { key, title, numeric: false, values: rows.names, indent: 20 + 14 * Math.min(rows.tree.deepest, 14) };
    this.widths = new ColumnWidths(rows.tree.order, this.names, () => this.options.widest?.());
    this.remember();
    this.build(place, tools);
    this.openTo(this.depthAtFirst());
  }

  /** Start with the filter, the order and the form that the address has. */
  remember() {
    const of = (name) => address.get(`${this.options.prefix}${name}`);
    this.order = this.column(of("sort").replace(/^-/, "")) ? of("sort") : "";
    this.words = of("q");
    this.form = ["flat", "leaves"].find((form) => form === of("rows")) ?? "";
  }

  /** Write into the address what is looked at. */
  note() {
    const { prefix } = this.options;
    address.set({ [`${prefix}q`]: this.words, [`${prefix}sort`]: this.order, [`${prefix}rows`]: this.form });
  }

  column(key) {
    return key === this.names.key ? this.names : this.layers.column(key);
  }

  depthAtFirst() {
    const met = new Array(this.tree.deepest + 1).fill(0);
    for (const depth of this.tree.depths) met[depth] += 1;
    let depth = 0;
    for (let rows = met[0] ?? 0; depth < this.tree.deepest && rows + met[depth + 1] <= MOST_AT_FIRST; depth += 1) {
      rows += met[depth + 1];
    }
    return Math.max(depth, 1);
  }

  build(place, tools) {
    const { title, thing } = this.options;
    const hint = "Words that each must occur, and conditions such as macs>1M";
    this.search = el("input", {
      type: "search",
      placeholder: "Words, or macs>1M",
      title: hint,
      "aria-label": `Filter ${thing}s`,
      value: this.words,
      oninput: () => this.set({ words: this.search.value }),
    });
    this.count = el("span", { class: "count", role: "status" });
    const depths = Array.from({ length: Math.min(this.tree.deepest, 12) }, (_, depth) => [depth, String(depth)]);
    const ofTree = () => [
      choice(
        "Depth",
        [["", "…"], ...depths, ["all", "all"]],
        "",
        (value) => value !== "" && this.openTo(value === "all" ? Infinity : Number(value)),
      ),
      choice(
        "Rows",
        [["", "tree"], ["flat", "flat list"], ["leaves", "leaves only"]],
        this.form,
        (form) => this.set({ form }),
      ),
    ];
    tools.replaceChildren(
      this.search,
      ...(this.isTree ? ofTree() : []),
      ...(this.options.tools?.(this) ?? []),
      this.columnChoice(),
      this.count,
    );
    this.head = el("thead");
    this.body = el("tbody");
    this.cols = el("colgroup");
    this.grid = el(
      "table",
      {
        class: "grid",
        role: this.isTree ? "treegrid" : "grid",
        tabindex: "0",
        "aria-label": title,
        onkeydown: (event) => this.key(event),
        onclick: (event) => this.click(event),
      },
      this.cols,
      this.head,
      this.body,
    );
    this.grid.table = this;
    this.scroller = el("div", { class: "scroll", onscroll: () => this.later() }, this.grid);
    place.replaceChildren(this.scroller);
    this.heads();
    redrawn(this.scroller, () => {
      this.heads();
      if (this.rows) this.draw();
    });
  }

  columnChoice() {
    const boxes = this.layers.columns.map((column) =>
      tick(column.title, column.shown, (on) => {
        column.shown = on;
        this.heads();
        this.draw();
      }),
    );
    return el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, ...boxes));
  }

  // Heads ------------------------------------------------------------------------------------------------------------

  /** The columns in their order: on a phone numbers with a share come first, texts last. */
  ordered() {
    const columns = this.layers.columns.filter((column) => column.shown);
    const rank = (column) => (column.isFirst || column.share ? 0 : column.numeric ? 1 : 2);
    return [this.names, ...(narrow() ? [...columns].sort((one, two) => rank(one) - rank(two)) : columns)];
  }

  /** Draw the heads in the room that there is; of paper the style sheet divides it. */
  heads() {
    this.keys = this.ordered();
    const widths = this.widths.fit(this.keys, this.scroller.clientWidth || innerWidth);
    const whole = widths.reduce((sum, width) => sum + width, 0);
    this.tight = new Set(this.keys.filter((column, place) => this.widths.isTight(column, widths[place])));
    this.cols.replaceChildren(...widths.map((width) => {
      const col = el("col");
      col.style.width = `${width}px`;
      return col;
    }));
    this.grid.style.width = `${whole}px`;
    this.head.replaceChildren(
      el("tr", { role: "row", "aria-rowindex": "1" }, ...this.keys.map((column) => this.headCell(column))),
    );
    this.grid.setAttribute("aria-colcount", this.keys.length);
  }

  headCell(column) {
    const lines = titleLines(column);
    const words = el("span", {}, ...lines.map((line) => el("span", { class: "line" }, line)));
    const button = el(
      "button",
      { type: "button", title: lines.join(", "), "data-key": column.key, onclick: () => this.sort(column) },
      words,
      el("span", { class: "arrow", "aria-hidden": "true" }),
    );
    const order = this.order === column.key ? "ascending" : this.order === `-${column.key}` ? "descending" : "none";
    return el(
      "th",
      {
        scope: "col",
        role: "columnheader",
        class: column.numeric ? "number" : column === this.names ? "name-head" : null,
        "aria-sort": order,
      },
      button,
    );
  }

  /** Sort by a column: numbers first from the top, names from A; once more the other way; then as they came. */
  sort({ key, numeric }) {
    const [first, second] = numeric ? [`-${key}`, key] : [key, `-${key}`];
    this.set({ order: this.order === first ? second : this.order === second ? "" : first });
    this.head.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  // Which rows -------------------------------------------------------------------------------------------------------

  set(state) {
    Object.assign(this, state);
    this.heads();
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
    const conditions = [
      matcher(this.layers, this.words),
      this.options.keep,
      this.form === "leaves" ? (row) => !this.tree.children[row].length : null,
    ].filter(Boolean);
    return conditions.length ? new Set(this.tree.order.filter((row) => conditions.every((holds) => holds(row)))) : null;
  }

  update() {
    this.found = this.matching();
    const { found } = this;
    const sorted = this.order ? (rows) => [...rows].sort(this.compare()) : (rows) => rows;
    const rows = this.form || !this.isTree
      ? sorted(this.tree.order.filter((row) => !found || found.has(row)))
      : this.nested(sorted);
    const before = this.rows?.[this.active];
    this.rows = rows;
    this.active = Math.max(0, before === undefined ? 0 : rows.indexOf(before)); // the one that was active stays so
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    const all = counted(this.tree.count, this.options.thing);
    this.count.textContent = found && found.size < this.tree.count ? `${grouped(found.size)} of ${all}` : all;
    this.draw();
  }

  compare() {
    const column = this.column(this.order.replace(/^-/, ""));
    const weight = column.numeric ? (row) => column.values[row] : (row) => column.values[row].toLowerCase();
    return orderBy(column === this.names && this.form ? (row) => this.layers.label(row) : weight, this.order.startsWith("-"));
  }

  /** The rows of the tree in view; those around a match are shown with it. */
  nested(sorted) {
    const wanted = this.found && new Set(this.found);
    for (const row of this.found ?? []) {
      for (const outer of this.tree.around(row)) {
        if (wanted.has(outer)) break;
        wanted.add(outer);
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

  // Rows in view -----------------------------------------------------------------------------------------------------

  later() {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw() {
    const all = paper.isNear;
    const seen = Math.ceil(Math.min(0.72 * innerHeight, 720) / ROW_HEIGHT); // as high as the style sheet lets it grow
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const first = all ? 0 : Math.min(top, Math.max(0, this.rows.length - seen - OVERSCAN));
    const last = Math.min(this.rows.length, all ? this.options.most : first + seen + 2 * OVERSCAN);
    const colspan = this.keys.length;
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.row(at));
    if (!this.rows.length) {
      drawn.push(el("tr", {}, el("td", { class: "none", colspan }, `No ${this.options.thing} matches.`)));
    }
    if (all && last < this.rows.length) {
      drawn.push(el("tr", {}, el("td", { colspan }, `${counted(this.rows.length - last, "more row")}, not printed`)));
    }
    this.body.replaceChildren(this.gap(first), ...drawn, this.gap(all ? 0 : this.rows.length - last));
    if (this.active >= first && this.active < last) {
      this.grid.setAttribute("aria-activedescendant", `${this.id}-${this.rows[this.active]}`);
    }
    else this.grid.removeAttribute("aria-activedescendant");
  }

  gap(count) {
    const row = el("tr", { class: "gap", "aria-hidden": "true" });
    row.style.height = `${count * ROW_HEIGHT}px`;
    return row;
  }

  /** Where a row is in the table: inside others, around others, and whether those are shown. */
  stateOf(row) {
    const isInside = this.isTree && !this.form;
    const hasInside = isInside && this.tree.children[row].length > 0;
    const isOpen = hasInside && (this.words ? true : !this.collapsed.has(row));
    return { isInside, hasInside, isOpen };
  }

  row(at) {
    const row = this.rows[at];
    const { isInside, hasInside, isOpen } = this.stateOf(row);
    const kinds = [this.options.kind?.(row), this.found?.has(row) === false && "around", at === this.active && "active"];
    const ofTree = {
      "aria-level": isInside ? this.tree.depths[row] + 1 : 1,
      "aria-expanded": hasInside ? String(isOpen) : null,
    };
    return el(
      "tr",
      {
        id: `${this.id}-${row}`,
        role: "row",
        "data-at": at,
        class: kinds.filter(Boolean).join(" "),
        "aria-rowindex": at + 2,
        "aria-selected": String(chosen.row >= 0 && this.options.layerOf?.(row) === chosen.row),
        ...(this.isTree ? ofTree : {}),
      },
      this.nameCell(row),
      ...this.keys.slice(1).map((column) => this.cell(column, row)),
    );
  }

  nameCell(row) {
    const { isInside, hasInside, isOpen } = this.stateOf(row);
    const name = this.options.shorten?.(row) ?? (isInside ? this.layers.name(row) : this.layers.label(row));
    const cell = el("th", { scope: "row", role: "rowheader", class: "name", title: this.layers.label(row) });
    if (this.isTree) {
      const kind = hasInside ? `twist ${isOpen ? "open" : ""}` : "twist leaf";
      cell.append(el("span", { class: kind, "aria-hidden": "true" }));
    }
    cell.append(el("span", {}, name));
    cell.style.paddingLeft = `${6 + (isInside ? 14 * Math.min(this.tree.depths[row], 14) : 0)}px`;
    return cell;
  }

  cell(column, row) {
    const text = shown(column, row);
    const [content, kind] = this.options.cell?.(column, row) ?? [text, column.numeric ? "" : column.key];
    if (!column.numeric) return el("td", { role: "gridcell", class: kind, title: text }, el("span", {}, content));
    const value = column.values[row];
    const [part, share] = [partOf(column, value), shareText(column, value)];
    const [state, why] = column.incomplete?.[row] ?? [];
    const cell = el(
      "td",
      {
        role: "gridcell",
        class: `number ${state ?? ""} ${kind}`,
        title: state ? `${state}: ${why}` : share ? `${text}, ${share}` : null,
      },
      el("span", {}, content),
    );
    if (share && !this.tight.has(column)) cell.append(el("span", { class: "share" }, share));
    if (part) {
      cell.style.setProperty("--part", `${Math.min(100, 100 * part).toFixed(2)}%`);
      cell.classList.add("bar-cell");
    }
    return cell;
  }

  // Mouse and keyboard -----------------------------------------------------------------------------------------------

  click(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line) return;
    this.active = Number(line.dataset.at);
    this.grid.focus({ preventScroll: true });
    const row = this.rows[this.active];
    if (event.target.closest(".twist:not(.leaf)")) this.toggle(row);
    else this.pick(row);
  }

  toggle(row, open = this.collapsed.has(row)) {
    if (open) this.collapsed.delete(row);
    else this.collapsed.add(row);
    this.update();
  }

  pick(row) {
    if (this.options.layerOf) chosen.choose(row < 0 ? row : this.options.layerOf(row), this);
    this.draw();
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.go(this.active + steps[event.key]);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.across(event, this.rows[this.active]);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.rows[this.active]);
    else if (event.key === "Escape") this.pick(-1);
    else return;
    event.preventDefault();
  }

  /** Right opens a layer and then goes into it, left closes it and then goes out; with Shift the table scrolls. */
  across(event, row) {
    const isRight = event.key === "ArrowRight";
    if (event.shiftKey || !this.isTree || this.form) {
      this.scroller.scrollLeft += isRight ? 120 : -120;
      return;
    }
    const canTurn = this.tree.children[row].length > 0 && !this.words && this.collapsed.has(row) === isRight;
    if (canTurn) this.toggle(row, isRight);
    else if (!isRight) this.go(Math.max(0, this.rows.indexOf(this.tree.parents[row])));
    else if (this.tree.parents[this.rows[this.active + 1]] === row) this.go(this.active + 1);
  }

  /** Make the row at a place the active one, and bring it into view. */
  go(at) {
    this.active = Math.max(0, Math.min(at, this.rows.length - 1));
    const top = this.active * ROW_HEIGHT;
    const room = this.scroller.clientHeight - this.head.offsetHeight - ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.draw();
  }

  /** Bring a row into view, whatever is collapsed around it. */
  find(row) {
    if (row >= 0 && !this.rows.includes(row)) {
      for (const outer of this.tree.around(row)) this.collapsed.delete(outer);
      this.update();
    }
    const at = row < 0 ? -1 : this.rows.indexOf(row);
    return at < 0 ? this.draw() : this.go(at);
  }
}
