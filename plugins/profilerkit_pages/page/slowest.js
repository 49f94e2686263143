// The layers that take the most by themselves, without the layers inside: a bar for each.

/** What can be ranked by: a title, and the columns that a bar is put together of. */
const MEASURES = [
  { key: "forward", title: "Own forward time", keys: ["own_forward_seconds"], heading: "Slowest layers" },
  { key: "time", title: "Own time, forward and backward", keys: ["own_forward_seconds", "own_backward_seconds"], heading: "Slowest layers, forward and backward" },
  { key: "macs", title: "Own MACs", keys: ["own_macs"], heading: "Layers with the most MACs of their own" },
  { key: "flops", title: "Own FLOPs", keys: ["own_flops"], heading: "Layers with the most FLOPs of their own" },
];
const RANKED = [10, 25, 50];
const PARTS = ["part-first", "part-second"];

/** Those of the measures that a model has numbers for. */
function measuresOf(layers) {
  const measures = MEASURES.map((measure) => ({ ...measure, columns: measure.keys.map((key) => layers.column(key)).filter((column) => column?.values.some((value) => value > 0)) }));
  return measures.filter((measure) => measure.columns.length && (measure.key !== "time" || layers.column("own_backward_seconds")));
}

class Slowest {
  constructor(place, tools, layers) {
    Object.assign(this, { layers, place, heading: place.parentNode.querySelector("h2"), measures: measuresOf(layers) });
    this.measure = this.measures.find((one) => one.key === address.get("rank")) ?? this.measures[0];
    this.most = address.among("most", RANKED);
    tools.replaceChildren(
      choice("By", this.measures.map((one) => [one.key, one.title]), this.measure.key, (key) => this.set({ measure: this.measures.find((one) => one.key === key) })),
      choice("Show", RANKED.map((number) => [number, String(number)]), this.most, (number) => this.set({ most: Number(number) })),
    );
    this.draw();
  }

  set(state) {
    Object.assign(this, state);
    address.set({ rank: this.measure === this.measures[0] ? "" : this.measure.key, most: this.most === RANKED[0] ? "" : this.most });
    this.draw();
  }

  values(row) {
    return this.measure.columns.map((column) => weightOf(column, row));
  }

  /** The value of the model, of which shares are told everywhere: medians of layers need not add up to it. */
  whole() {
    const totals = this.measure.keys.map((key) => this.layers.column(key.replace("own_", "")));
    return totals.reduce((sum, column) => sum + (column ? weightOf(column, 0) : 0), 0);
  }

  draw() {
    const { measure, layers } = this;
    const all = layers.tree.parents.map((_, row) => [row, this.values(row).reduce((sum, value) => sum + value, 0)]).filter(([, sum]) => sum > 0);
    const whole = this.whole() || all.reduce((sum, [, value]) => sum + value, 0);
    const ranked = all.sort((one, two) => two[1] - one[1] || one[0] - two[0]).slice(0, this.most);
    const share = ranked.reduce((sum, [, value]) => sum + value, 0) / whole;
    this.heading.textContent = measure.heading;
    const parts = measure.columns.length > 1 ? [el("ul", { class: "legend" }, ...measure.columns.map((column, place) => el("li", {}, el("i", { class: `swatch ${PARTS[place]}` }), column.title)))] : [];
    this.bars = new Map(ranked.map(([row, sum]) => [row, this.bar(row, sum, ranked[0][1], whole)]));
    this.place.replaceChildren(
      el("p", { class: "lead" }, `${ranked.length} of ${counted(all.length, "layer")}, with ${percent(share)} of the model. Own is without the layers inside.`),
      el("ol", { class: "ranking", "aria-label": measure.heading }, ...this.bars.values()),
      ...parts,
    );
    this.find(chosen.row);
  }

  bar(row, sum, most, whole) {
    const [{ unit, scale }] = this.measure.columns;
    const track = el("span", { class: "track", "aria-hidden": "true" });
    this.values(row).forEach((value, place) => {
      const part = el("i", { class: PARTS[place] });
      part.style.width = `${((100 * value) / most).toFixed(2)}%`;
      track.append(part);
    });
    const label = this.layers.label(row);
    const button = el("button", { type: "button", title: `${label} (${this.layers.types[row]})`, onclick: () => chosen.choose(row, this) });
    button.append(el("span", { class: "of" }, el("span", {}, el("bdi", {}, label)), " ", el("small", {}, this.layers.types[row])), track, el("span", { class: "much" }, quantity(sum, unit, scale), " ", el("small", {}, percent(sum / whole))));
    return el("li", {}, button);
  }

  find(row) {
    for (const [at, bar] of this.bars) bar.firstChild.setAttribute("aria-pressed", String(at === row));
  }
}
