// The samples of a measurement, those of several models below each other on one scale.

const STRIP = 92;
const MOST_DOTS = 600;
/** Fewer samples have larger dots. */
const FEW = 12;

class Samples {
  constructor(place, tools, reports) {
    this.reports = reports;
    const titles = new Map(reports.flatMap((report) => report.measurements.map((one) => [one.key, one.title])));
    this.key = address.among("of", [...titles.keys()]);
    tools.replaceChildren(...(titles.size > 1 ? [choice("Of", [...titles], this.key, (key) => this.choose(key))] : []));
    this.plot = el("div", { class: "plot" });
    this.table = el("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": "Percentiles of the samples" });
    this.lead = el("p", { class: "lead" });
    this.few = el("p", { class: "left-out" });
    this.machine = el("div", { class: "left-out" });
    place.replaceChildren(this.lead, this.plot, this.table, this.few, this.machine);
    this.redraw = redrawn(this.plot, (width) => this.draw(width));
    this.set(this.key);
  }

  choose(key) {
    address.set({ of: key });
    this.set(key);
  }

  set(key) {
    this.key = key;
    this.taken = this.reports.flatMap((report) => report.measurements.filter((one) => one.key === key).map((one) => ({ ...one, name: report.name, values: one.samples.map(asNumber) })));
    const [first] = this.taken;
    this.lead.textContent = `${first.title}: every sample as a dot, the median as a line, its interval (${[...new Set(this.taken.map((one) => one.intervalName))].join("; ")}) as a band.`;
    this.numbers();
    this.redraw();
  }

  numbers() {
    const heads = ["Model", "Samples", "Warm-up", "Median", "Interval", "5 %", "25 %", "75 %", "95 %"];
    const rows = this.taken.map((one) => this.cells(one));
    const few = this.taken.some((one) => Object.values(one.percentiles).includes(null));
    this.few.textContent = few ? "A hyphen: there are too few samples for that percentile." : "";
    const known = this.taken.filter((one) => one.conditions.length);
    this.machine.replaceChildren(...known.map((one) => el("p", {}, `${this.taken.length > 1 ? `${one.name}. ` : ""}The machine during the samples: ${one.conditions.join("; ")}.`)));
    this.table.replaceChildren(plainTable(heads, rows, [1, 2, 3, 4, 5, 6, 7, 8]));
  }

  /** The cells of a model in the table of percentiles. */
  cells(one) {
    const write = (value) => (value === null ? "-" : quantity(asNumber(value), one.unit, one.scale));
    const name = one.intervalName === this.taken[0].intervalName ? "" : ` (${one.intervalName})`;
    const interval = `${one.interval.map(write).join(" to ")}${name}`;
    const percentiles = [5, 25, 75, 95].map((percent) => write(one.percentiles[percent]));
    return [one.name, String(one.values.length), String(one.warmup.length), write(one.percentiles[50]), interval, ...percentiles];
  }

  draw(width) {
    if (!this.taken) return;
    const finite = this.taken.flatMap((one) => one.values.filter(Number.isFinite));
    if (!finite.length) return void this.plot.replaceChildren(nothing("No sample is a finite number, so there is nothing to draw."));
    const [low, high] = this.range(finite);
    const [{ unit, scale }] = this.taken;
    const height = MARGIN.top + MARGIN.bottom + STRIP * this.taken.length;
    const x = linear(low, high, MARGIN.left, width - MARGIN.right);
    const ticks = ticksOf(low, high, Math.max(2, width / 140), "none");
    const root = chart(width, height, this.lead.textContent, { ticks, at: x, text: writerOf(ticks, unit, scale) }, { ticks: [], at: () => 0, text: String });
    this.taken.forEach((one, place) => this.strip(root, one, x, MARGIN.top + STRIP * place, width));
    this.plot.replaceChildren(root);
    return undefined;
  }

  /** From the least to the most, but not so far that one outlier presses all the others together. */
  range(finite) {
    const sorted = [...finite].sort((one, two) => one - two);
    const [least, most] = [sorted[0], sorted[sorted.length - 1]];
    const usual = sorted[Math.floor(0.98 * (sorted.length - 1))];
    const high = most - least > 8 * (usual - least) && usual > least ? usual + (usual - least) : most;
    const room = (high - least) * 0.06 || Math.abs(least) * 0.05 || 1;
    return [least - room, high + room];
  }

  strip(root, one, x, top, width) {
    const [from, to] = one.interval.map(asNumber);
    const middle = top + STRIP * 0.58;
    const edge = width - MARGIN.right;
    const values = one.values.filter(Number.isFinite);
    if (Number.isFinite(from) && Number.isFinite(to)) root.append(svg("rect", { class: "interval-band", x: x(from), y: top + 18, width: Math.max(2, Math.min(edge, x(to)) - x(from)), height: STRIP - 26 }));
    const every = Math.ceil(values.length / MOST_DOTS);
    values.forEach((value, place) => {
      if (place % every || x(value) > edge) return;
      root.append(svg("circle", { class: "sample", cx: x(value).toFixed(1), cy: (middle + (((place * 7919) % 23) - 11) * 1.1).toFixed(1), r: values.length < FEW ? 3 : 1.8 }));
    });
    const median = asNumber(one.percentiles[50]);
    if (Number.isFinite(median)) root.append(svg("line", { class: "median", x1: x(median), x2: x(median), y1: top + 18, y2: top + STRIP - 8 }));
    const beyond = values.filter((value) => x(value) > edge).length;
    const odd = one.values.length - values.length;
    const said = [one.name.length > 40 ? `${one.name.slice(0, 39)}…` : one.name, beyond ? `${counted(beyond, "sample")} further right` : "", odd ? `${counted(odd, "sample")} not finite` : ""];
    root.append(svg("text", { class: "strip-name", x: MARGIN.left, y: top + 12 }, said.filter(Boolean).join(", ")));
  }
}
