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
    this.table = el("div", {
      class: "scroll short",
      tabindex: "0",
      role: "region",
      "aria-label": "Percentiles of the samples",
    });
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
    this.taken = this.reports.flatMap((report) => {
      const measured = report.measurements.filter((one) => one.key === key);
      return measured.map((one) => ({ ...one, name: report.name, values: one.samples.map(asNumber) }));
    });
    const names = [...new Set(this.taken.map((one) => one.intervalName))].join("; ");
    const { title } = this.taken[0];
    this.lead.textContent = `${title}: every sample as a dot, the median as a line, its interval (${names}) as a band.`;
    this.fillTable();
    this.describeMachine();
    this.redraw();
  }

  // In numbers -------------------------------------------------------------------------------------------------------

  fillTable() {
    const heads = ["Model", "Samples", "Warm-up", "Median", "Interval", "5 %", "25 %", "75 %", "95 %"];
    const few = this.taken.some((one) => Object.values(one.percentiles).includes(null));
    this.few.textContent = few ? "A hyphen: there are too few samples for that percentile." : "";
    this.table.replaceChildren(plainTable(heads, this.taken.map((one) => this.cells(one)), [1, 2, 3, 4, 5, 6, 7, 8]));
  }

  describeMachine() {
    const known = this.taken.filter((one) => one.conditions.length);
    const whose = (one) => (this.taken.length > 1 ? `${one.name}. ` : "");
    const sentences = known.map((one) => `${whose(one)}The machine during the samples: ${one.conditions.join("; ")}.`);
    this.machine.replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
  }

  /** The cells of a model in the table of percentiles. */
  cells(one) {
    const write = (value) => (value === null ? "-" : quantity(asNumber(value), one.unit, one.scale));
    const name = one.intervalName === this.taken[0].intervalName ? "" : ` (${one.intervalName})`;
    const interval = `${one.interval.map(write).join(" to ")}${name}`;
    const percentiles = [5, 25, 75, 95].map((percent) => write(one.percentiles[percent]));
    return [
      one.name,
      String(one.values.length),
      String(one.warmup.length),
      write(one.percentiles[50]),
      interval,
      ...percentiles,
    ];
  }

  // As a picture -----------------------------------------------------------------------------------------------------

  draw(width) {
    if (!this.taken) return;
    const finite = this.taken.flatMap((one) => one.values.filter(Number.isFinite));
    if (!finite.length) {
      this.plot.replaceChildren(nothing("No sample is a finite number, so there is nothing to draw."));
      return;
    }
    const [low, high] = this.range(finite);
    const [{ unit, scale }] = this.taken;
    const height = MARGIN.top + MARGIN.bottom + STRIP * this.taken.length;
    const x = linear(low, high, MARGIN.left, width - MARGIN.right);
    const ticks = ticksOf(low, high, Math.max(2, width / 140), "none");
    const root = chart(
      width,
      height,
      this.lead.textContent,
      { ticks, at: x, text: writerOf(ticks, unit, scale) },
      { ticks: [], at: () => 0, text: String },
    );
    this.taken.forEach((one, place) => root.append(...this.strip(one, x, MARGIN.top + STRIP * place, width - MARGIN.right)));
    this.plot.replaceChildren(root);
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

  /** The picture of a model's samples from `top` on, as far to the right as the `edge`. */
  strip(one, x, top, edge) {
    const values = one.values.filter(Number.isFinite);
    const [from, to] = one.interval.map(asNumber);
    const median = asNumber(one.percentiles[50]);
    const parts = [];
    if (Number.isFinite(from) && Number.isFinite(to)) {
      const width = Math.max(2, Math.min(edge, x(to)) - x(from));
      parts.push(svg("rect", { class: "interval-band", x: x(from), y: top + 18, width, height: STRIP - 26 }));
    }
    parts.push(...this.dots(values.filter((value) => x(value) <= edge), x, top));
    if (Number.isFinite(median)) {
      parts.push(svg("line", { class: "median", x1: x(median), x2: x(median), y1: top + 18, y2: top + STRIP - 8 }));
    }
    const beyond = values.filter((value) => x(value) > edge).length;
    const odd = one.values.length - values.length;
    const said = [
      cut(one.name, 40),
      beyond && `${counted(beyond, "sample")} further right`,
      odd && `${counted(odd, "sample")} not finite`,
    ];
    parts.push(svg("text", { class: "strip-name", x: MARGIN.left, y: top + 12 }, said.filter(Boolean).join(", ")));
    return parts;
  }

  /** A dot for each value, or for some of very many, scattered up and down so that few hide others. */
  dots(values, x, top) {
    const every = Math.ceil(values.length / MOST_DOTS);
    const radius = values.length < FEW ? 3 : 1.8;
    return values.flatMap((value, index) => {
      const cy = top + STRIP * 0.58 + (((index * 7919) % 23) - 11) * 1.1;
      return index % every ? [] : [svg("circle", { class: "sample", cx: x(value).toFixed(1), cy: cy.toFixed(1), r: radius })];
    });
  }
}
