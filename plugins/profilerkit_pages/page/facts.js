// All that is known of the chosen layer, also what has no column on a narrow screen.

class LayerFacts {
  constructor(place, layers) {
    this.layers = layers;
    this.node = el("section", { class: "chosen-facts", "aria-label": "The chosen layer", "aria-live": "polite", hidden: true });
    place.append(this.node);
    this.find(chosen.row);
  }

  find(row) {
    const { layers } = this;
    this.node.hidden = row < 0;
    if (row < 0) return;
    const known = layers.columns.map((column) => [column, shown(column, row)]).filter(([, text]) => text && text !== "-");
    const facts = known.map(([column, text]) => {
      const share = column.share && column.whole > 0 ? ` (${percent(column.values[row] / column.whole)})` : "";
      return el("div", {}, el("dt", {}, column.title), el("dd", {}, `${text}${share}`));
    });
    this.node.replaceChildren(el("h3", {}, layers.label(row)), el("dl", { class: "facts" }, ...facts));
  }
}
