// The table of all models.

const LEAST_REASON = 120; // it takes what room the other columns leave
const LONGEST_REASON = 460;
const NOT_PRINTED = ["seconds", "peak_bytes"];
const PRINTED_WIDTHS = { spec: 215, status: 100, reason: 280 };
const SAMPLED = 300;
const PHONE = ["spec", "status", "macs", "total_params", "reason"];

/** The length of the longest text among the first numbers of a column. */
function longest(column) {
  let most = 0;
  for (let row = 0; row < Math.min(rows.count, SAMPLED); row += 1) if (isNumber(column.values[row])) most = Math.max(most, numberIn(column, row).length);
  return most;
}

/** The text of a number, with the sign of one that is not all there is. */
function numberIn(column, row) {
  const isLower = column.metric?.incomplete[row]?.[0] === "partial" && isNumber(column.values[row]);
  return `${isLower ? "≥ " : ""}${textOf(column, row)}`;
}

class AuditTable extends Grid {
  thing = "model";
  most = 500;

  constructor(place, tools) {
    super();
    if (narrow()) for (const column of columns) column.shown &&= PHONE.includes(column.key);
    this.build(place, tools);
    this.update();
    address.listeners.push((changed) => this.changed(changed));
  }

  get shown() {
    return columns.filter((column) => (column.shown && !(paper.isNear && NOT_PRINTED.includes(column.key))) || column.key === "spec");
  }

  get order() {
    return address.state.sort;
  }

  setOrder(sort) {
    address.set({ sort });
  }

  build(place, tools) {
    this.search = el("input", { type: "search", placeholder: "Words, or macs>1G backend=torch", title: "Words that each must occur; conditions such as macs>1G, model_size<100MiB, backend=torch, end=timeout", "aria-label": "Filter models", value: address.state.q, oninput: () => address.set({ q: this.search.value }) });
    this.count = el("span", { class: "count", role: "status" });
    tools.replaceChildren(this.search, this.columnChoice(columns.filter((column) => column.key !== "spec")), this.count);
    this.place(place, "row", "grid", "Models");
    redrawn(this.scroller, () => this.rows && this.heads());
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
    this.drawHeads(this.shown.map((column) => this.headCell(column.key, [column.title], column.numeric)), widths, paper.isNear);
  }

  width(column) {
    if (paper.isNear && column.key in PRINTED_WIDTHS) return PRINTED_WIDTHS[column.key];
    if (column.key === "spec") return narrow() ? 150 : 250;
    if (column.key === "status") return 88;
    if (column.key === "reason") return narrow() ? 170 : ["failed", "partial", "flagged"].includes(address.state.status) ? LONGEST_REASON : LEAST_REASON;
    this.lengths ??= new Map();
    if (column.numeric) {
      if (!this.lengths.has(column.key)) this.lengths.set(column.key, longest(column));
      return Math.max(126, Math.min(170, 7.2 * column.title.length + 44), Math.min(190, 7.2 * this.lengths.get(column.key) + 20));
    }
    if (!this.lengths.has(column.key)) this.lengths.set(column.key, column.values.reduce((most, value) => Math.max(most, value.length), column.title.length + 3));
    return Math.max(84, Math.min(7.2 * this.lengths.get(column.key) + 24, 250));
  }

  update() {
    this.setRows(sorted(matching(address.state), address.state.sort));
    const all = counted(rows.count, "model");
    this.count.textContent = this.rows.length === rows.count ? all : `${this.rows.length.toLocaleString("en-US")} of ${all}`;
    this.heads();
    this.draw();
  }

  row(at) {
    const row = this.rows[at];
    return this.line(at, this.shown.map((column) => this.cell(column, row)), "", chosenRow() === row);
  }

  cell(column, row) {
    const text = textOf(column, row);
    if (column.key === "spec") return el("th", { scope: "row", role: "rowheader", class: "name", title: text }, text);
    if (column.key === "status") return el("td", { role: "gridcell" }, el("span", { class: `badge ${text}` }, text));
    if (column.key === "reason") return el("td", { role: "gridcell", class: rows.text.flags[row] ? "note flag" : "note", title: text }, text);
    if (!column.numeric) return el("td", { role: "gridcell", class: "type", title: text }, text);
    const [state, why] = column.metric?.incomplete[row] ?? [];
    return el("td", { role: "gridcell", class: `number ${state ?? ""}`, title: state ? `${state}: ${why}` : null }, numberIn(column, row));
  }

  pick(row) {
    choose(row);
    this.draw();
  }

  leave() {
    choose(-1);
  }

  /** Bring a row into view, if it is among those that match. */
  find(row) {
    const at = this.rows.indexOf(row);
    if (at < 0) this.draw();
    else this.go(at);
  }
}
