// All that is known of the chosen layer, in view wherever on the page it was chosen.

class LayerFacts {
  constructor(layers) {
    this.layers = layers;
    document.querySelector(".chosen-facts")?.remove();
    this.node = el("section", {
      class: "chosen-facts",
      "aria-label": "The chosen layer",
      "aria-live": "polite",
      hidden: true,
    });
    document.querySelector("main").append(this.node);
    this.find(chosen.row);
  }

  find(row) {
    const { layers } = this;
    this.node.hidden = row < 0;
    if (row < 0) return;
    const known = layers.columns.map((column) => [column, shown(column, row)]).filter(([, text]) => text && text !== "-");
    const share = (column) => shareText(column, column.values[row]);
    const facts = factList(
      known.map(([column, text]) => [column.title, share(column) ? `${text} (${share(column)})` : text]),
    );
    const close = el("button", { type: "button", onclick: () => chosen.choose(-1) }, "Close");
    this.node.replaceChildren(el("div", { class: "bar" }, el("h3", {}, layers.label(row)), close), facts);
  }
}
