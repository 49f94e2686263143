// The layers of two models in one table: what is the same, what changed, what one of them lacks.

const CHANGES = ["same", "changed", "removed", "added"];

/** One pair of models at a time; with several, a choice of which is beside the reference. */
class Sides {
  constructor(place, tools, data) {
    this.place = place;
    this.tools = tools;
    this.pairs = data.sides.map((sides, index) => ({ sides, reference: data.reports[0].name, name: data.reports[index + 1].name }));
    this.only = false;
    this.show(0);
  }

  show(index) {
    const { sides, reference, name } = this.pairs[index];
    const several = this.pairs.length > 1;
    const which = several ? [choice("Beside the reference", this.pairs.map((pair, at) => [at, pair.name]), index, (at) => this.show(Number(at)))] : [];
    if (!sides) {
      this.tools.replaceChildren(...which);
      this.place.replaceChildren(nothing(`There are no layers to compare: ${reference} or ${name} was not traced.`));
      return;
    }
    const changes = unpacked(sides.changes);
    const layers = new Layers({ ...sides, columns: [this.changeColumn(sides), ...sides.columns] });
    const met = CHANGES.map((change) => [change, changes.filter((one) => one === change).length]).filter(([, number]) => number);
    const table = new TreeTable(this.place, this.tools, layers, {
      caption: `Layers of ${reference} and ${name}`,
      kind: (row) => `change-${changes[row]}`,
      cellClass: (column) => (column.key === "change" ? "change" : null),
      keep: null,
      tools: (made) => [tick("Differences only", this.only, (on) => this.differences(made, changes, on))],
    });
    this.tools.prepend(...which);
    this.place.prepend(el("p", { class: "lead" }, met.map(([change, number]) => `${number.toLocaleString("en-US")} ${change}`).join(", ")));
    if (this.only) this.differences(table, changes, true);
    this.table = table;
  }

  changeColumn(sides) {
    return { key: "change", title: "Change", unit: "", scale: "none", numeric: false, share: false, shown: true, values: sides.changes };
  }

  differences(table, changes, on) {
    this.only = on;
    table.options.keep = on ? (row) => changes[row] !== "same" : null;
    table.update();
  }
}
