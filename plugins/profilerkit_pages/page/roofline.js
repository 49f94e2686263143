// FLOPs for each byte moved, layer by layer: against the FLOPs a second where times are known, else as a distribution.

const MOST_POINTS = 4000;

class Roofline {
  constructor(place, data, layers) {
    Object.assign(this, { data, layers });
    this.seconds = data.seconds.map(asNumber);
    this.points = data.layers.map((row, place) => ({ row, flops: data.flops[place], intensity: data.flops[place] / data.bytes[place], rate: data.flops[place] / this.seconds[place] }));
    this.timed = this.points.filter((point) => point.rate > 0 && Number.isFinite(point.rate));
    this.plot = el("div", { class: "plot" });
    place.replaceChildren(el("p", { class: "lead" }, this.sentence()), this.plot);
    redrawn(this.plot, (width) => (this.timed.length ? this.scatter(width) : this.distribution(width)));
  }

  sentence() {
    if (!this.timed.length) return "How many FLOPs layers do for each byte that they read or write. The times of single layers are not known here (the metric layer_times measures them), so there are no FLOPs a second to set against it.";
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

  /** Bars of FLOPs over intensity, a quarter of a decade each. */
  distribution(width) {
    const height = 220;
    const bins = new Map();
    for (const { intensity, flops } of this.points) {
      const bin = Math.floor(Math.log10(intensity) * 4);
      const [sum, number] = bins.get(bin) ?? [0, 0];
      bins.set(bin, [sum + flops, number + 1]);
    }
    const keys = [...bins.keys()];
    const [first, last] = [Math.min(...keys) - 1, Math.max(...keys) + 2];
    const whole = this.points.reduce((sum, point) => sum + point.flops, 0);
    const most = Math.max(...[...bins.values()].map(([sum]) => sum / whole));
    const across = logarithmic(10 ** (first / 4), 10 ** (last / 4), MARGIN.left, width - MARGIN.right);
    const up = linear(0, most * 1.1, height - MARGIN.bottom, MARGIN.top);
    const root = chart(width, height, "FLOPs by arithmetic intensity", { ticks: decades(10 ** (first / 4), 10 ** (last / 4)), at: across, text: (tick) => `${quantity(tick, "", "si")} FLOPs/B` }, { ticks: ticksOf(0, most * 1.1, 4, "none"), at: up, text: (tick) => `${formatNumber(100 * tick)} %` });
    for (const [bin, [sum, number]] of bins) {
      const [from, to] = [across(10 ** (bin / 4)), across(10 ** ((bin + 1) / 4))];
      const bar = svg("rect", { class: "bar-shape", x: from + 1, y: up(sum / whole), width: Math.max(1, to - from - 2), height: Math.max(1, up(0) - up(sum / whole)) });
      const lines = [`${formatNumber(10 ** (bin / 4))} to ${formatNumber(10 ** ((bin + 1) / 4))} FLOPs/B`, `${percent(sum / whole)} of the FLOPs, ${counted(number, "layer")}`];
      bar.addEventListener("pointermove", (event) => tip.show(lines, event.clientX, event.clientY));
      bar.addEventListener("pointerleave", () => tip.hide());
      root.append(bar);
    }
    root.append(svg("text", { class: "axis-name", x: MARGIN.left + 4, y: MARGIN.top + 4 }, "share of the FLOPs"));
    this.plot.replaceChildren(root);
  }

  find(row) {
    for (const [at, dot] of this.dots ?? []) dot.classList.toggle("picked", at === row);
    const dot = this.dots?.get(row);
    if (dot) dot.parentNode.append(dot);
  }
}
