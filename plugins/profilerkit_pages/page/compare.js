// Two models side by side: their maps, and their layers in one table, what is the same, what changed, what one lacks.

const CHANGES = ["same", "changed", "unknown", "removed", "added"];
/** Models that share fewer of their layers than this are looked at as two maps: a table would be removals and additions. */
const ALIKE = 0.5;

/** One pair of models at a time; with several, a choice of which is beside the reference. */
class Sides {
  constructor(place, tools) {
    Object.assign(this, { place, tools });
    this.pairs = data.sides.map(
      (sides, index) => ({ sides, reports: [data.reports[0], data.reports[index + 1]] }),
    ).filter((pair) => pair.sides);
    this.only = address.get("changed") === "1";
    this.show(address.among("beside", this.pairs.map((_, index) => index)));
  }

  show(index) {
    this.pair = this.pairs[index];
    this.changes = unpacked(this.pair.sides.changes);
    const shared = this.changes.filter((change) => change !== "removed" && change !== "added").length;
    const form = address.among("sides", ["maps", "table"], shared < ALIKE * this.changes.length ? "maps" : "table");
    this[form](this.counts());
    const forms = this.choose("As", [["maps", "maps"], ["table", "table"]], form, (other) => ({ sides: other }));
    const pairs = this.pairs.map((pair, at) => [at, pair.reports[1].name]);
    const beside = this.choose("Beside the reference", pairs, index, (at) => ({ beside: Number(at) || "" }));
    this.tools.prepend(...(pairs.length > 1 ? [beside] : []), forms);
  }

  /** A choice that the address keeps; what is chosen is shown at once. */
  choose(title, entries, now, changes) {
    return choice(title, entries, now, (value) => {
      address.set(changes(value));
      this.show(address.among("beside", this.pairs.map((_, at) => at)));
    });
  }

  /** How many layers there are of each kind of change. */
  counts() {
    const count = (change) => this.changes.filter((one) => one === change).length;
    const met = CHANGES.filter((change) => this.changes.includes(change));
    const counts = met.map((change) => `${grouped(count(change))} ${change}`).join(", ");
    return `${counts} of ${counted(this.changes.length, "layer")} in both models together.`;
  }

  maps(lead) {
    const both = this.pair.reports.map((report) => new Rows(report.layers));
    const sizes = both[0].sizes.filter((column) => both[1].sizes.some((one) => one.key === column.key));
    const first = sizes.find((column) => column.key === both[0].usualSize.key) ?? sizes[0];
    const places = this.pair.reports.map((report) => el("div", { class: "side" }, el("h3", {}, report.name), el("div")));
    this.place.replaceChildren(el("p", { class: "lead" }, lead), el("div", { class: "two" }, ...places));
    this.tools.replaceChildren();
    if (!first) {
      this.place.append(nothing("No size of layers is known of both models."));
      return;
    }
    const colours = coloursOf(...both);
    const maps = both.map((layers, at) => new ModelMap(places[at].lastChild, null, layers, {
      isLinked: false,
      name: this.pair.reports[at].name,
      column: layers.column(first.key),
      colours,
    }));
    const sizeBy = ({ key }) => maps.forEach((map) => map.set({ column: map.layers.column(key) }));
    this.tools.append(sizeChoice("Sized by", sizes, first, sizeBy));
  }

  table(lead) {
    const { sides, reports } = this.pair;
    const [reference, name] = reports.map((report) => report.name);
    const change = {
      key: "change",
      title: "Change",
      unit: "",
      scale: "none",
      numeric: false,
      share: false,
      shown: true,
      isFirst: true,
      values: sides.changes,
    };
    const table = new Table(this.place, this.tools, new Rows({ ...sides, columns: [change, ...sides.columns] }), {
      title: `Layers of ${reference} and ${name}`,
      prefix: "side-",
      kind: (row) => `change-${this.changes[row]}`,
      cell: (column, row) => this.cell(column, row),
      keep: (row) => !this.only || this.changes[row] !== "same",
      tools: (made) => [
        tick("Differences only", this.only, (only) => {
          this.only = only;
          address.set({ changed: only ? "1" : "" });
          made.update();
        }),
        downloads({ name: `${reference} and ${name}`, reference, other: name }, made),
      ],
    });
    table.scroller.before(el("p", { class: "lead" }, lead));
  }

  /** A difference that is known has a colour; less is better: parameters, work and time are costs. */
  cell(column, row) {
    if (column.suffix !== "_difference" || !column.values[row] || column.signed?.[row]) return null;
    return [shown(column, row), column.values[row] < 0 ? "less" : "more"];
  }
}
