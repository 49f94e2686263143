// Two metrics against each other, a dot for each model that matches, and the Pareto front: what nothing else beats.

const HEIGHT = 380;
/** The models of a front that are listed below it, and the most points that have their names beside them. */
const MOST_NAMED = 60;
const MOST_LABELS = 60;
/** With more points than this the dots are small. */
const MANY = 2000;

/** The points that no other one beats in one metric without being worse in the other, by the first metric. */
function paretoFront(points, moreX, moreY) {
  const [right, up] = [moreX ? -1 : 1, moreY ? -1 : 1];
  const order = [...points].sort((one, two) => right * (one.x - two.x) || up * (one.y - two.y));
  let best = Infinity;
  let last = null;
  return order.filter((point) => {
    const equal = point.x === last?.x && point.y === last?.y; // neither beats the other
    if (up * point.y >= best && !equal) return false;
    best = up * point.y;
    last = point;
    return true;
  });
}

class Scatter {
  constructor(place, tools, table) {
    Object.assign(this, { table, tools });
    this.metrics = models.columns.filter((column) => column.numeric && column.key !== "busy" && column.values.some(isNumber));
    this.backends = [...new Set(texts.backend)];
    this.lead = el("p", { class: "lead" });
    this.dots = new Points((point) => this.lines(point));
    this.legend = el("div");
    this.front = el("ul", { class: "front", "aria-label": "Pareto front" });
    place.replaceChildren(this.lead, this.dots.place, this.legend, this.front);
    this.controls();
    redrawn(this.dots.place, () => this.draw());
    address.listeners.push((changed) => {
      if (changed.some((name) => ["x", "y"].includes(name))) this.controls();
      if (changed.some((name) => ["q", "status", "x", "y"].includes(name))) this.draw();
    });
    chosen.listeners.push((row) => {
      this.dots.mark(row);
      this.name();
    });
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
    const points = this.table.rows.map((row) => ({ row, x: x.values[row], y: y.values[row] })).filter((point) => isNumber(point.x) && isNumber(point.y));
    this.best = paretoFront(points.filter(({ row }) => !texts.flags[row]), this.more("x"), this.more("y"));
    this.say(points, x, y);
    if (points.length) {
      this.dots.draw(this.dress(points), x, y, HEIGHT);
      this.dots.dots.before(svg("path", { class: "front-line", d: this.steps() }));
    } else {
      this.dots.points = [];
      this.dots.place.replaceChildren(nothing("No model that matches has a value of both metrics."));
    }
    this.name();
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
    return this.best.map((point, at) => (at ? `H${point.across.toFixed(1)}V${point.up.toFixed(1)}` : `M${point.across.toFixed(1)},${point.up.toFixed(1)}`)).join("");
  }

  /** The room that the line from a point of the front to the next one takes: across, then up or down. */
  stair(from, to) {
    const [left, right, top, bottom] = [Math.min(from.across, to.across), Math.max(from.across, to.across), Math.min(from.up, to.up), Math.max(from.up, to.up)];
    return [
      [left, from.up, right, from.up],
      [to.across, top, to.across, bottom],
    ];
  }

  /** Write names beside points, where there is room: that of the chosen one first, then those of the front. */
  name() {
    for (const node of this.dots.place.querySelectorAll(".point-name")) node.remove();
    const { points } = this.dots;
    const picked = points.filter(({ row }) => row === chosen.row);
    const taken = points.slice(0, 500).map(({ across, up }) => [across - 5, up - 5, across + 5, up + 5]);
    taken.push(...this.best.slice(1).flatMap((point, at) => this.stair(this.best[at], point)));
    const named = [...new Set([...picked, ...this.best, ...(points.length <= MOST_LABELS ? points : [])])];
    for (const point of named.slice(0, MOST_LABELS)) {
      const text = cut(pointName(point.row));
      const room = this.findRoom(point, textWidth(text, 11), taken);
      if (!room) continue;
      taken.push(room);
      this.dots.root.append(svg("text", { class: "point-name", x: room[0], y: room[1] + 10 }, text));
    }
  }

  /** The first free room beside a point for a text: right, left, above, or below; undefined if there is none. */
  findRoom({ across, up }, wide, taken) {
    const places = [[across + 9, up], [across - 9 - wide, up], [across - wide / 2, up - 13], [across - wide / 2, up + 13]];
    const rooms = places.map(([left, middle]) => [left, middle - 6, left + wide, middle + 6]);
    const isFree = ([left, top, right, bottom]) => !taken.some((one) => one[0] < right && one[2] > left && one[1] < bottom && one[3] > top);
    return rooms.find((room) => room[0] > MARGIN.left && room[2] < this.dots.place.clientWidth && isFree(room));
  }

  say(points, x, y) {
    const none = this.table.rows.length - points.length;
    const bounds = points.filter(({ row }) => x.signed?.[row] || y.signed?.[row]).length;
    const odd = points.filter(({ row }) => texts.flags[row]).length;
    const parts = [`${counted(points.length, "model")} with both metrics.`, this.best.length ? `No other beats ${this.best.length === 1 ? "the one" : `the ${this.best.length}`} on the dashed front: ${this.more("x") ? "higher" : "lower"} ${x.title}, ${this.more("y") ? "higher" : "lower"} ${y.title}.` : ""];
    if (bounds) parts.push(`${counted(bounds, "model")} with a bound (≥, ≤ or ~) of one of them ${bounds === 1 ? "is" : "are"} drawn as if it were exact.`);
    if (odd) parts.push(`${counted(odd, "hollow point")}: values that cannot be right are not on the front.`);
    if (none) parts.push(`${counted(none, "model")} without a value of one of them ${none === 1 ? "is" : "are"} left out.`);
    this.lead.textContent = parts.filter(Boolean).join(" ");
    const met = new Set(points.map(({ row }) => texts.backend[row]));
    this.legend.replaceChildren(legend(this.backends.map((backend, place) => [`c${place % 10}`, backend]).filter(([, backend]) => met.has(backend)), "Backends"));
    const links = this.best.slice(0, MOST_NAMED).map(({ row }) => el("li", {}, el("button", { type: "button", class: "link", title: labelOf(row), onclick: () => chosen.choose(row) }, labelOf(row).slice(START.length) || labelOf(row))));
    if (this.best.length > MOST_NAMED) links.push(el("li", {}, `and ${this.best.length - MOST_NAMED} more`));
    this.front.replaceChildren(...links);
  }

  lines(point) {
    const { row } = point;
    const others = this.dots.points.filter((other) => other !== point && Math.hypot(other.across - point.across, other.up - point.up) < 3);
    const hidden = others.length ? `${others.length} more here: ${others.slice(0, 3).map((other) => labelOf(other.row)).join(", ")}${others.length > 3 ? ", ..." : ""}` : "";
    const odd = texts.flags[row] ? `not plausible: ${texts.flags[row]}` : "";
    return [labelOf(row), ...["x", "y"].map((name) => `${this.axis(name).title}: ${shown(this.axis(name), row)}`), texts.backend[row], odd, hidden];
  }
}
