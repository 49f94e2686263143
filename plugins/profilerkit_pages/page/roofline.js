// FLOPs for each byte moved against FLOPs a second, layer by layer.

const MOST_POINTS = 4000;
const INTENSITY = { title: "FLOPs for each byte", unit: "FLOPs/B", scale: "si", isLogarithmic: true };
const RATE = { title: "FLOP/s", unit: "", scale: "si", isLogarithmic: true };
const WHAT_DOTS_ARE =
  "Each dot is a layer: FLOPs for each byte that it reads or writes, against FLOPs a second in the forward pass. Limits " +
  "of the device are not known here, so no ceilings are drawn. The table has the same numbers under Columns.";

class Roofline {
  constructor(place, { layers: rows, flops, bytes, seconds }, layers) {
    this.layers = layers;
    const colours = coloursOf(layers);
    const all = rows.map((row, at) => ({
      row,
      flops: flops[at],
      x: flops[at] / bytes[at],
      y: flops[at] / asNumber(seconds[at]),
      kind: colours.has(layers.types[row]) ? `c${colours.get(layers.types[row])}` : "group",
    }));
    const timed = all.filter(({ x, y }) => [x, y].every((value) => value > 0 && Number.isFinite(value)));
    const points = timed.sort((one, two) => two.flops - one.flops).slice(0, MOST_POINTS);
    for (const point of points) point.radius = Math.round(3 + 6 * Math.sqrt(point.flops / points[0].flops));
    this.dots = new Points((point) => this.lines(point), this);
    const types = points.map(({ row }) => layers.types[row]);
    const others = points.some(({ kind }) => kind === "group") ? [["group", "layers with others inside"]] : [];
    place.replaceChildren(
      el("p", { class: "lead" }, this.sentence(all.length - timed.length)),
      this.dots.place,
      legendOf(colours, types, ...others),
    );
    redrawn(this.dots.place, () => this.dots.draw(points, INTENSITY, RATE, 300));
  }

  sentence(without) {
    const left = without ? ` ${counted(without, "layer")} without a time ${without === 1 ? "is" : "are"} left out.` : "";
    return `${WHAT_DOTS_ARE}${left}`;
  }

  lines({ row, flops, x, y }) {
    return [
      this.layers.label(row),
      this.layers.types[row],
      `${formatNumber(x)} FLOPs/B, ${quantity(y, "FLOP/s", "si")}`,
      quantity(flops, "FLOPs", "si"),
    ];
  }

  find(row) {
    this.dots.mark(row);
  }
}
