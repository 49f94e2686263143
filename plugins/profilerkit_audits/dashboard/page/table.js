// The table of all models. Only the rows in view are in the document, so that ten thousand stay fluid.

const ROW_HEIGHT = 28;
const OVERSCAN = 8;
const PRINTED = 500;
const LEAST_REASON = 120; // it takes what room the other columns leave
const LONGEST_REASON = 460;
const NOT_PRINTED = ["seconds", "peak_bytes"];
const PRINTED_WIDTHS = { spec: 215, status: 100, reason: 280 };
const SAMPLED = 300;
const PHONE = ["spec", "status", "macs", "total_params", "reason"];
const narrow = () => innerWidth < 640;

/** The length of the longest text among the first numbers of a column. */
function longest(column) {
  let most = 0;
  for (let row = 0; row < Math.min(rows.count, SAMPLED); row += 1) if (isNumber(column.values[row])) most = Math.max(most, textOf(column, row).length);
  return most;
}

class AuditTable {
  constructor(place, tools) {
    if (narrow()) for (const column of columns) column.shown &&= PHONE.includes(column.key);
    this.active = 0;
    this.build(place, tools);
    this.update();
    address.listeners.push((changed) => this.changed(changed));
  }

  get shown() {
    return columns.filter((column) => (column.shown && !(this.printing && NOT_PRINTED.includes(column.key))) || column.key === "spec");
  }

  build(place, tools) {
    this.search = el("input", { type: "search", placeholder: "Words, or macs>1G backend=torch", title: "Words that each must occur; conditions such as macs>1G, model_size<100MiB, backend=torch, end=timeout", "aria-label": "Filter models", value: address.state.q, oninput: () => address.set({ q: this.search.value }) });
    this.count = el("span", { class: "count", role: "status" });
    tools.replaceChildren(this.search, this.columnChoice(), this.count);
    this.head = el("thead");
    this.body = el("tbody");
    this.widths = el("colgroup");
    this.grid = el("table", { role: "grid", tabindex: "0", "aria-label": "Models", onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) }, this.widths, this.head, this.body);
    this.scroller = el("div", { class: "scroll", onscroll: () => this.later() }, this.grid);
    place.replaceChildren(this.scroller);
    redrawn(this.scroller, () => this.rows && this.heads());
  }

  columnChoice() {
    const boxes = columns.filter((column) => column.key !== "spec").map((column) =>
      tick(column.title, column.shown, (on) => {
        column.shown = on;
        this.heads();
        this.draw();
      }),
    );
    return el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, ...boxes));
  }

  changed(names) {
    if (names.includes("q") && this.search.value !== address.state.q) this.search.value = address.state.q;
    if (names.some((name) => ["q", "status", "sort"].includes(name))) this.update();
    if (names.includes("model")) this.find(chosenRow());
  }

  /** Draw the heads; widths come from all rows, so that columns stand still while rows come and go. */
  heads() {
    const widths = this.shown.map((column) => this.width(column));
    const reason = this.shown.findIndex((column) => column.key === "reason");
    const left = this.scroller.clientWidth - widths.reduce((sum, width) => sum + width, 0);
    if (reason >= 0 && !narrow()) widths[reason] += Math.max(0, Math.min(left, LONGEST_REASON - widths[reason]));
    const whole = widths.reduce((sum, width) => sum + width, 0);
    this.widths.replaceChildren(...widths.map((width) => {
      const col = el("col");
      col.style.width = this.printing ? `${(100 * width) / whole}%` : `${width}px`; // paper does not scroll
      return col;
    }));
    this.grid.style.width = this.printing ? "100%" : `${whole}px`;
    const cells = this.shown.map((column) => {
      const button = el("button", { type: "button", title: column.title, "data-key": column.key, onclick: () => this.sort(column) }, el("span", {}, column.title), el("span", { class: "arrow", "aria-hidden": "true" }));
      return el("th", { scope: "col", role: "columnheader", class: column.numeric ? "number" : null, "aria-sort": this.sortOf(column.key) }, button);
    });
    this.head.replaceChildren(el("tr", { role: "row", "aria-rowindex": "1" }, ...cells));
    this.grid.setAttribute("aria-colcount", cells.length);
  }

  width(column) {
    if (this.printing && column.key in PRINTED_WIDTHS) return PRINTED_WIDTHS[column.key];
    if (column.key === "spec") return narrow() ? 150 : 250;
    if (column.key === "status") return 88;
    if (column.key === "reason") return narrow() ? 170 : ["failed", "partial", "flagged"].includes(address.state.status) ? LONGEST_REASON : LEAST_REASON;
    this.lengths ??= new Map();
    if (column.numeric) {
      if (!this.lengths.has(column.key)) this.lengths.set(column.key, longest(column));
      return Math.max(118, Math.min(170, 7.2 * column.title.length + 44), Math.min(190, 7.2 * this.lengths.get(column.key) + 20));
    }
    if (!this.lengths.has(column.key)) this.lengths.set(column.key, column.values.reduce((most, value) => Math.max(most, value.length), column.title.length + 3));
    return Math.max(84, Math.min(7.2 * this.lengths.get(column.key) + 24, 250));
  }

  sortOf(key) {
    if (address.state.sort === key) return "ascending";
    return address.state.sort === `-${key}` ? "descending" : "none";
  }

  /** Sort by a column: numbers first from the top, names from A; once more the other way; then as in the plan. */
  sort(column) {
    const [first, second] = column.numeric ? [`-${column.key}`, column.key] : [column.key, `-${column.key}`];
    address.set({ sort: address.state.sort === first ? second : address.state.sort === second ? "" : first });
    this.head.querySelector(`[data-key="${CSS.escape(column.key)}"]`)?.focus();
  }

  update() {
    const before = this.rows?.[this.active];
    this.rows = sorted(matching(address.state), address.state.sort);
    this.active = Math.max(0, before === undefined ? 0 : this.rows.indexOf(before));
    const all = counted(rows.count, "model");
    this.count.textContent = this.rows.length === rows.count ? all : `${this.rows.length.toLocaleString("en-US")} of ${all}`;
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
    this.heads();
    this.draw();
  }

  /** Draw all rows over the whole width of a sheet, or again what fits the window. */
  print(printing) {
    this.printing = printing;
    this.heads();
    this.draw(printing);
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw(all = false) {
    const seen = Math.ceil(Math.min(0.72 * innerHeight, 720) / ROW_HEIGHT); // as high as the style sheet lets it grow
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const first = all ? 0 : Math.min(top, Math.max(0, this.rows.length - seen - OVERSCAN));
    const last = all ? Math.min(this.rows.length, PRINTED) : Math.min(this.rows.length, first + seen + 2 * OVERSCAN);
    const shown = this.shown;
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.row(at, shown));
    if (!this.rows.length) drawn.push(el("tr", {}, el("td", { class: "none", colspan: shown.length }, "No model matches.")));
    if (all && last < this.rows.length) drawn.push(el("tr", {}, el("td", { colspan: shown.length }, `${counted(this.rows.length - last, "more row")}, not printed`)));
    this.body.replaceChildren(this.gap(first), ...drawn, this.gap(all ? 0 : this.rows.length - last));
    if (this.active >= first && this.active < last) this.grid.setAttribute("aria-activedescendant", `row-${this.rows[this.active]}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  gap(count) {
    const row = el("tr", { class: "gap", "aria-hidden": "true" });
    row.style.height = `${count * ROW_HEIGHT}px`;
    return row;
  }

  row(at, shown) {
    const row = this.rows[at];
    const cells = shown.map((column) => this.cell(column, row));
    return el("tr", { id: `row-${row}`, role: "row", "data-at": at, class: at === this.active ? "active" : null, "aria-rowindex": at + 2, "aria-selected": String(chosenRow() === row) }, ...cells);
  }

  cell(column, row) {
    const text = textOf(column, row);
    if (column.key === "spec") return el("th", { scope: "row", role: "rowheader", class: "name", title: text }, text);
    if (column.key === "status") return el("td", { role: "gridcell" }, el("span", { class: `badge ${text}` }, text));
    if (column.key === "reason") return el("td", { role: "gridcell", class: rows.text.flags[row] ? "note flag" : "note", title: text }, text);
    if (!column.numeric) return el("td", { role: "gridcell", class: "type", title: text }, text);
    const [state, why] = column.metric?.incomplete[row] ?? [];
    const lower = state === "partial" && isNumber(column.values[row]) ? "≥ " : "";
    return el("td", { role: "gridcell", class: `number ${state ?? ""}`, title: state ? `${state}: ${why}` : null }, `${lower}${text}`);
  }

  click(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line) return;
    this.active = Number(line.dataset.at);
    this.grid.focus({ preventScroll: true });
    choose(this.rows[this.active]);
    this.draw();
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!this.rows.length) return;
    if (["ArrowLeft", "ArrowRight"].includes(event.key)) this.scroller.scrollLeft += event.key === "ArrowRight" ? 120 : -120;
    else if (event.key in steps) this.go(this.active + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") choose(this.rows[this.active]);
    else if (event.key === "Escape") choose(-1);
    else return;
    event.preventDefault();
  }

  go(at) {
    this.active = Math.max(0, Math.min(at, this.rows.length - 1));
    const top = this.active * ROW_HEIGHT;
    const room = this.scroller.clientHeight - this.head.offsetHeight - ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.draw();
  }

  /** Bring a row into view, if it is among those that match. */
  find(row) {
    const at = this.rows.indexOf(row);
    if (at < 0) this.draw();
    else this.go(at);
  }
}
