// FLOPs for each byte moved against FLOPs a second, layer by layer.

const MOST_POINTS = 4000;

class Roofline {
  constructor(place, data, layers) {
    Object.assign(this, { data, layers });
    this.seconds = data.seconds.map(asNumber);
    this.points = data.layers.map((row, place) => ({ row, flops: data.flops[place], intensity: data.flops[place] / data.bytes[place], rate: data.flops[place] / this.seconds[place] }));
    this.timed = this.points.filter((point) => point.rate > 0 && Number.isFinite(point.rate));
    this.plot = el("div", { class: "plot" });
    place.replaceChildren(el("p", { class: "lead" }, this.sentence()), this.plot);
    redrawn(this.plot, (width) => this.scatter(width));
  }

  sentence() {
    const without = this.points.length - this.timed.length;
    const left = without ? ` ${counted(without, "layer")} without a time ${without === 1 ? "is" : "are"} left out.` : "";
    return `Each dot is a layer: FLOPs for each byte that it reads or writes, against FLOPs a second in the forward pass. Limits of the device are not known here, so no ceilings are drawn. The table has the same numbers under Columns.${left}`;
  }

  scatter(width) {
    const height = 300;
    const points = [...this.timed].sort((one, two) => two.flops - one.flops).slice(0, MOST_POINTS);
    const [x, y] = [this.bounds(points.map((point) => point.intensity)), this.bounds(points.map((point) => point.rate))];
    const across = logarithmic(...x, MARGIN.left, width - MARGIN.right);
    const up = logarithmic(...y, height - MARGIN.bottom, MARGIN.top);
    const root = chart(width, height, this.sentence(), { ticks: decades(...x), at: across, text: (tick) => `${quantity(tick, "", "si")} FLOPs/B` }, { ticks: decades(...y), at: up, text: (tick) => quantity(tick, "", "si") });
    root.append(svg("text", { class: "axis-name", x: MARGIN.left + 4, y: MARGIN.top + 4 }, "FLOP/s"));
    const colours = coloursOf(this.layers);
    const most = points[0].flops;
    this.dots = new Map();
    for (const point of points) {
      const place = colours.get(this.layers.types[point.row]) ?? COLOURS;
      const dot = svg("circle", { class: `dot c${place}`, cx: across(point.intensity).toFixed(1), cy: up(point.rate).toFixed(1), r: (3 + 6 * Math.sqrt(point.flops / most)).toFixed(1) });
      this.dots.set(point.row, dot);
      dot.addEventListener("pointermove", (event) => tip.show(this.lines(point), event.clientX, event.clientY));
      dot.addEventListener("pointerleave", () => tip.hide());
      dot.addEventListener("click", () => chosen.choose(point.row, this));
    }
    root.append(...this.dots.values());
    this.plot.replaceChildren(root);
    this.find(chosen.row);
  }

  bounds(values) {
    const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, 0]);
    return [10 ** (Math.floor(Math.log10(low) * 2) / 2 - 0.25), 10 ** (Math.ceil(Math.log10(high) * 2) / 2 + 0.25)];
  }

  lines(point) {
    return [this.layers.label(point.row), this.layers.types[point.row], `${formatNumber(point.intensity)} FLOPs/B, ${quantity(point.rate, "FLOP/s", "si")}`, quantity(point.flops, "FLOPs", "si")];
  }

  find(row) {
    for (const [at, dot] of this.dots ?? []) dot.classList.toggle("picked", at === row);
    const dot = this.dots?.get(row);
    if (dot) dot.parentNode.append(dot);
  }
}
