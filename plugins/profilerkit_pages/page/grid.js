// A table of which only the rows in view are in the document, so that any number of them stays fluid.

const ROW_HEIGHT = 28;
const OVERSCAN = 8;
const narrow = () => innerWidth < 640; // as the style sheet has it

/** Whether a page is about to be printed: then all rows are drawn, however the window changes meanwhile. */
const paper = { isNear: false };

/** The order of rows by what `weight` says of each; one without a weight comes last either way. */
function orderBy(weight, down) {
  const sign = down ? -1 : 1;
  const absent = (value) => value === null || value === undefined || Number.isNaN(value);
  return (one, two) => {
    const [a, b] = [weight(one), weight(two)];
    if (absent(a) || absent(b)) return absent(a) - absent(b) || one - two;
    return a === b ? one - two : a < b ? -sign : sign;
  };
}

/**
 * What every table does: heads that sort, moving by keys, drawing what is in view. A kind of table has `thing` (what
 * its rows are), `most` (rows on paper), `order` (`macs`, or `-macs` from the top), and `heads()`, `row(at)`,
 * `setOrder(order)`, `pick(row)`; `rows` are those to be seen, in their order.
 */
class Grid {
  active = 0;

  place(body, id, role, label) {
    this.id = id;
    this.head = el("thead");
    this.body = el("tbody");
    this.widths = el("colgroup");
    this.grid = el("table", { role, tabindex: "0", "aria-label": label, onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) }, this.widths, this.head, this.body);
    this.scroller = el("div", { class: "scroll", onscroll: () => this.later() }, this.grid);
    body.replaceChildren(this.scroller);
  }

  columnChoice(columns) {
    const boxes = columns.map((column) =>
      tick(column.title, column.shown, (on) => {
        column.shown = on;
        this.heads();
        this.draw();
      }),
    );
    return el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, ...boxes));
  }

  /** Draw the heads in columns of these widths; `isWhole` fits them into the sheet, since paper does not scroll. */
  drawHeads(cells, widths, isWhole = false) {
    const whole = widths.reduce((sum, width) => sum + width, 0);
    this.widths.replaceChildren(...widths.map((width) => {
      const col = el("col");
      col.style.width = isWhole ? `${(100 * width) / whole}%` : `${width}px`;
      return col;
    }));
    this.grid.style.width = isWhole ? "100%" : `${whole}px`;
    this.head.replaceChildren(el("tr", { role: "row", "aria-rowindex": "1" }, ...cells));
    this.grid.setAttribute("aria-colcount", cells.length);
  }

  headCell(key, lines, isNumeric, kind = null) {
    const words = el("span", {}, ...lines.map((line) => el("span", { class: "line" }, line)));
    const button = el("button", { type: "button", title: lines.join(", "), "data-key": key, onclick: () => this.sort(key, isNumeric) }, words, el("span", { class: "arrow", "aria-hidden": "true" }));
    const order = this.order === key ? "ascending" : this.order === `-${key}` ? "descending" : "none";
    return el("th", { scope: "col", role: "columnheader", class: isNumeric ? "number" : kind, "aria-sort": order }, button);
  }

  /** Sort by a column: numbers first from the top, names from A; once more the other way; then as they came. */
  sort(key, isNumeric) {
    const [first, second] = isNumeric ? [`-${key}`, key] : [key, `-${key}`];
    this.setOrder(this.order === first ? second : this.order === second ? "" : first);
    this.head.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  /** Show these rows; the one that was active stays so, if it is among them. */
  setRows(rows) {
    const before = this.rows?.[this.active];
    this.rows = rows;
    this.active = Math.max(0, before === undefined ? 0 : rows.indexOf(before));
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
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
    const last = Math.min(this.rows.length, all ? this.most : first + seen + 2 * OVERSCAN);
    const colspan = this.grid.getAttribute("aria-colcount");
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.row(at));
    if (!this.rows.length) drawn.push(el("tr", {}, el("td", { class: "none", colspan }, `No ${this.thing} matches.`)));
    if (all && last < this.rows.length) drawn.push(el("tr", {}, el("td", { colspan }, `${counted(this.rows.length - last, "more row")}, not printed`)));
    this.body.replaceChildren(this.gap(first), ...drawn, this.gap(all ? 0 : this.rows.length - last));
    if (this.active >= first && this.active < last) this.grid.setAttribute("aria-activedescendant", `${this.id}-${this.rows[this.active]}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  gap(count) {
    const row = el("tr", { class: "gap", "aria-hidden": "true" });
    row.style.height = `${count * ROW_HEIGHT}px`;
    return row;
  }

  /** The element of a row; `kind` are further classes, `more` further attributes. */
  line(at, cells, kind, isChosen, more = {}) {
    return el("tr", { id: `${this.id}-${this.rows[at]}`, role: "row", "data-at": at, class: `${kind} ${at === this.active ? "active" : ""}`, "aria-rowindex": at + 2, "aria-selected": String(isChosen), ...more }, ...cells);
  }

  click(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line) return;
    this.active = Number(line.dataset.at);
    this.grid.focus({ preventScroll: true });
    this.press(this.rows[this.active], event.target);
  }

  press(row) {
    this.pick(row);
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.go(this.active + steps[event.key]);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.across(event, this.rows[this.active]);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.rows[this.active]);
    else if (event.key === "Escape" && this.leave) this.leave();
    else return;
    event.preventDefault();
  }

  across(event) {
    this.scroller.scrollLeft += event.key === "ArrowRight" ? 120 : -120;
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
}
