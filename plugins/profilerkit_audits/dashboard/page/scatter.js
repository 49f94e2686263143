// Two metrics against each other, a dot for each model that matches, and the Pareto front: what nothing else beats.

const HEIGHT = 380;
/** The models of a front that are listed below it. */
const MOST_NAMED = 60;
/** With more points than this the dots are small. */
const MANY = 2000;

/**
 * The points that no other one beats in one metric without being worse in the other, by the first metric.
 *
 * From the best of the first metric on, a point is on the front if it is better in the second one than all before it,
 * or equal to the last in both.
 */
function paretoFront(points, moreX, moreY) {
  const costX = (point) => (moreX ? -point.x : point.x);
  const costY = (point) => (moreY ? -point.y : point.y);
  const front = [];
  for (const point of [...points].sort((one, two) => costX(one) - costX(two) || costY(one) - costY(two))) {
    const last = front.at(-1);
    const isEqual = last && point.x === last.x && point.y === last.y;
    if (!last || isEqual || costY(point) < costY(last)) front.push(point);
  }
  return front;
}

class Scatter {
  constructor(place, tools, table) {
    Object.assign(this, { table, tools });
    this.metrics = models.columns.filter((column) => column.numeric && column.values.some(isNumber));
    this.backends = [...new Set(texts.backend)];
    this.lead = el("p", { class: "lead" });
    this.dots = new Points((point) => this.lines(point));
    this.legend = el("div");
    this.front = el("ul", { class: "front", "aria-label": "Pareto front" });
    place.replaceChildren(this.lead, this.dots.place, this.legend, this.front);
    this.controls();
    redrawn(this.dots.place, () => this.draw());
    address.listeners.push((changed) => {
      if (changed.includes("x") || changed.includes("y")) this.controls();
      if (changed.some((name) => ["q", "status", "x", "y"].includes(name))) this.draw();
    });
    chosen.listeners.push((row) => this.dots.mark(row));
  }

  /** The metric of an axis: that of the address, else MACs across, and up what costs or counts most beside them. */
  axis(name) {
    const asked = this.metrics.find((column) => column.key === address.get(name));
    return asked ?? (name === "x" ? this.usualAcross() : this.usualUp());
  }

  usualAcross() {
    return this.metrics.find(({ key }) => key === "macs") ?? this.metrics[0];
  }

  /** A time, or a metric of which more is better, or a memory, or another one than that across. */
  usualUp() {
    const across = this.usualAcross();
    const kinds = [({ scale }) => scale === "time", ({ metric }) => metric.more, ({ scale }) => scale === "iec"];
    const found = kinds.map((isOne) => this.metrics.find((column) => column.metric && isOne(column))).find(Boolean);
    return found ?? this.metrics.find((column) => column !== across) ?? across;
  }

  /** Whether more of a metric is better, as the metric says. */
  more(name) {
    return Boolean(this.axis(name).metric?.more);
  }

  controls() {
    const entries = this.metrics.map((column) => [column.key, column.title]);
    const metric = (name, text) => choice(text, entries, this.axis(name).key, (key) => address.set({ [name]: key }));
    this.tools.replaceChildren(metric("x", "Across"), metric("y", "Up"));
  }

  draw() {
    const [x, y] = [this.axis("x"), this.axis("y")];
    const points = this.table.rows
      .map((row) => ({ row, x: x.values[row], y: y.values[row] }))
      .filter((point) => isNumber(point.x) && isNumber(point.y));
    this.best = paretoFront(points.filter(({ row }) => !texts.flags[row]), this.more("x"), this.more("y"));
    this.say(points, x, y);
    if (points.length) {
      this.dots.draw(this.dress(points), x, y, HEIGHT);
      this.dots.dots.before(svg("path", { class: "front-line", d: this.steps() }));
    } else {
      this.dots.points = [];
      this.dots.place.replaceChildren(nothing("No model that matches has a value of both metrics."));
    }
  }

  /** Give points their looks, and put them in order: the front above the others, the rarest backend above those more frequent. */
  dress(points) {
    const best = new Set(this.best);
    const often = new Map();
    for (const point of points) {
      const backend = texts.backend[point.row];
      often.set(backend, (often.get(backend) ?? 0) + 1);
      point.radius = best.has(point) ? 5 : points.length > MANY ? 2.5 : 4;
      point.kind = `c${this.backends.indexOf(backend) % 10} ${texts.flags[point.row] ? "hollow" : ""} ${best.has(point) ? "best" : ""}`;
    }
    const rank = (point) => (best.has(point) ? 0 : often.get(texts.backend[point.row]));
    return points.sort((one, two) => rank(two) - rank(one));
  }

  /** The front as stairs: between two of its models nothing is known to be possible. */
  steps() {
    const parts = this.best.map(({ across, up }, index) =>
      index ? `H${across.toFixed(1)}V${up.toFixed(1)}` : `M${across.toFixed(1)},${up.toFixed(1)}`,
    );
    return parts.join("");
  }

  /** Write how many models are drawn, what the front is, and the legend and the list below. */
  say(points, x, y) {
    this.lead.textContent = [...this.describePoints(points, x, y)].join(" ");
    const met = new Set(points.map(({ row }) => texts.backend[row]));
    const colours = this.backends.map((backend, index) => [`c${index % 10}`, backend]);
    this.legend.replaceChildren(legend(colours.filter(([, backend]) => met.has(backend)), "Backends"));
    const links = this.best.slice(0, MOST_NAMED).map(({ row }) => el("li", {}, this.link(row)));
    if (this.best.length > MOST_NAMED) links.push(el("li", {}, `and ${this.best.length - MOST_NAMED} more`));
    this.front.replaceChildren(...links);
  }

  link(row) {
    const looks = { type: "button", class: "link", title: labelOf(row), onclick: () => chosen.choose(row) };
    return el("button", looks, labelOf(row).slice(START.length) || labelOf(row));
  }

  *describePoints(points, x, y) {
    yield `${counted(points.length, "model")} with both metrics.`;
    if (this.best.length) {
      const front = this.best.length === 1 ? "the one" : `the ${this.best.length}`;
      const [sideX, sideY] = ["x", "y"].map((name) => (this.more(name) ? "higher" : "lower"));
      yield `No other beats ${front} on the dashed front: ${sideX} ${x.title}, ${sideY} ${y.title}.`;
    }
    const bounds = points.filter(({ row }) => x.signed?.[row] || y.signed?.[row]).length;
    const are = (count) => (count === 1 ? "is" : "are");
    if (bounds) yield `${counted(bounds, "model")} with a bound (≥, ≤ or ~) of one of them ${are(bounds)} drawn as if it were exact.`;
    const odd = points.filter(({ row }) => texts.flags[row]).length;
    if (odd) yield `${counted(odd, "hollow point")}: values that cannot be right are not on the front.`;
    const none = this.table.rows.length - points.length;
    if (none) yield `${counted(none, "model")} without a value of one of them ${are(none)} left out.`;
  }

  /** What the tip of a point says. */
  lines(point) {
    const { row } = point;
    const values = ["x", "y"].map((name) => `${this.axis(name).title}: ${shown(this.axis(name), row)}`);
    return [labelOf(row), ...values, texts.backend[row], flagOf(row), this.describeHidden(point)];
  }

  /** The models whose points lie on a point; empty without any. */
  describeHidden(point) {
    const isNear = (other) => Math.hypot(other.across - point.across, other.up - point.up) < 3;
    const others = this.dots.points.filter((other) => other !== point && isNear(other));
    if (!others.length) return "";
    const names = others.slice(0, 3).map((other) => labelOf(other.row));
    return `${others.length} more here: ${names.join(", ")}${others.length > 3 ? ", ..." : ""}`;
  }
}
