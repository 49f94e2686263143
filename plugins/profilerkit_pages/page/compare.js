// Two models side by side: their maps, and their layers in one table, what is the same, what changed, what one lacks.

const CHANGES = ["same", "changed", "removed", "added"];
/** Models that share fewer of their layers than this are looked at as two maps: a table would be removals and additions. */
const ALIKE = 0.5;

/** One pair of models at a time; with several, a choice of which is beside the reference. */
class Sides {
  constructor(place, tools, data) {
    this.place = place;
    this.tools = tools;
    this.data = data;
    this.pairs = data.sides.map((sides, index) => ({ sides, reference: data.reports[0].name, name: data.reports[index + 1].name }));
    this.only = address.get("changed") === "1";
    this.show(address.among("beside", this.pairs.map((_, index) => index)));
  }

  show(index) {
    this.index = index;
    const { sides, reference, name } = this.pairs[index];
    if (!sides) {
      this.tools.replaceChildren(...this.which());
      this.place.replaceChildren(nothing(`There are no layers to compare: ${reference} or ${name} was not traced.`));
      return;
    }
    const changes = unpacked(sides.changes);
    const met = CHANGES.map((change) => [change, changes.filter((one) => one === change).length]).filter(([, number]) => number);
    const shared = changes.filter((change) => change === "same" || change === "changed").length;
    this.shared = `${shared.toLocaleString("en-US")} of ${counted(changes.length, "layer")} ${shared === 1 ? "is" : "are"} in both models. The table has each of them.`;
    this.counts = el("p", { class: "lead" }, met.map(([change, number]) => `${number.toLocaleString("en-US")} ${change}`).join(", "));
    const form = address.among("sides", ["maps", "table"], shared < ALIKE * changes.length ? "maps" : "table");
    if (form === "maps") this.maps();
    else this.table();
  }

  /** The choices that both forms have: of the model, and of the form. */
  which(form) {
    const beside = choice("Beside the reference", this.pairs.map((pair, at) => [at, pair.name]), this.index, (at) => {
      address.set({ beside: Number(at) || "" });
      this.show(Number(at));
    });
    const forms = switchOf("Form", [["maps", "Maps"], ["table", "Table"]], form, (other) => {
      address.set({ sides: other });
      this.show(this.index);
      this.tools.querySelector(`[data-value="${other}"]`).focus();
    });
    return [...(this.pairs.length > 1 ? [beside] : []), ...(form ? [forms] : [])];
  }

  maps() {
    const reports = [this.data.reports[0], this.data.reports[this.index + 1]];
    const both = reports.map((report) => new Layers(report.layers));
    const sizes = both[0].sizes.filter((column) => both[1].sizes.some((one) => one.key === column.key));
    if (!sizes.length) {
      this.tools.replaceChildren(...this.which("maps"));
      this.place.replaceChildren(el("p", { class: "lead" }, this.shared), nothing("Both models have no layer of known size."));
      return;
    }
    const first = sizes.find((column) => column.key === usualSize(both[0]).key) ?? sizes[0];
    const colours = coloursOf(...both);
    const places = reports.map((report) => el("div", { class: "side" }, el("h3", {}, report.name), el("div")));
    this.tools.replaceChildren(...this.which("maps"), ...mapTools("icicle", sizes, first, ({ kind, key }) => maps.forEach((map) => map.set(kind ? { kind } : { column: map.layers.column(key) }))));
    this.place.replaceChildren(el("p", { class: "lead" }, this.shared), el("div", { class: "two" }, ...places));
    const maps = both.map((layers, at) => new ModelMap(places[at].lastChild, null, layers, { linked: false, name: reports[at].name, column: layers.column(first.key), colours }));
  }

  table() {
    const { sides, reference, name } = this.pairs[this.index];
    const changes = unpacked(sides.changes);
    const layers = new Layers({ ...sides, columns: [this.changeColumn(sides), ...sides.columns] });
    const table = new TreeTable(this.place, this.tools, layers, {
      caption: `Layers of ${reference} and ${name}`,
      about: { name: `${reference} and ${name}`, reference, other: name },
      prefix: "side-",
      kind: (row) => `change-${changes[row]}`,
      cellClass: (column, row) => this.cellClass(column, row),
      keep: null,
      tools: (made) => [tick("Differences only", this.only, (on) => this.differences(made, changes, on))],
    });
    this.tools.prepend(...this.which("table"));
    this.place.prepend(this.counts);
    if (this.only) this.differences(table, changes, true);
  }

  /** The change of a layer; and a difference, of which less is better: parameters, work and time are costs. */
  cellClass(column, row) {
    if (column.key === "change") return "change";
    if (column.suffix !== "_difference" || !column.values[row]) return "";
    return column.values[row] < 0 ? "less" : "more";
  }

  changeColumn(sides) {
    return { key: "change", title: "Change", unit: "", scale: "none", numeric: false, share: false, shown: true, values: sides.changes };
  }

  differences(table, changes, on) {
    this.only = on;
    address.set({ changed: on ? "1" : "" });
    table.options.keep = on ? (row) => changes[row] !== "same" : null;
    table.update();
  }
}
