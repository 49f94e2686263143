// The tables of a report beside that of its layers, one at a time.

class Tables {
  constructor(place, tools, report, layers) {
    Object.assign(this, { place, tools, report, layers });
    this.show(address.among("table", report.tables.map((table) => table.title)));
  }

  show(title) {
    const { tables, name } = this.report;
    const { rows, thing, heading, lead } = tables.find((table) => table.title === title);
    const which = choice("Table", tables.map((table) => [table.title, table.title]), title, (other) => {
      address.set({ table: other === tables[0].title ? "" : other, "t-q": "", "t-sort": "" });
      this.show(other);
    });
    const named = new Rows(rows);
    const layerOf = thing === "layer" ? (row) => this.layers.rowOf(named.name(row)) : null;
    this.table = new Table(this.place, this.tools, named, {
      title,
      thing,
      name: ["name", heading],
      prefix: "t-",
      tools: (table) => [downloads({ name }, table)],
      layerOf,
      most: 20,
    });
    if (lead) this.table.scroller.before(el("p", { class: "lead" }, lead));
    this.tools.prepend(which);
  }

  find() {
    this.table.draw();
  }
}
