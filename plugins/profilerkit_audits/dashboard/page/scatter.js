// Two metrics against each other, a dot for each model that matches, and the Pareto front: what nothing else beats.

const HEIGHT = 380;
const MOST_NAMED = 60;
const MOST_LABELS = 24;
const WORTH_A_LOGARITHM = 30;
const LONGEST_TICK = 12;
const LABEL = '11px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

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

/** Powers of two between two bounds, at most about eight of them: bytes are written so. */
function powersOfTwo(low, high) {
  const [first, last] = [Math.ceil(Math.log2(low)), Math.floor(Math.log2(high))];
  const step = Math.max(1, Math.ceil((last - first + 1) / 8));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, place) => 2 ** (first + place * step));
}

/** Take the unit out of the texts of an axis on the left if they are longer than its margin; returns what its name says instead. */
function shortened(axis, { unit, scale }) {
  if (!unit || axis.ticks.every((tick) => axis.text(tick).length <= LONGEST_TICK)) return "";
  axis.text = (tick) => quantity(tick, "", scale === "none" ? "si" : scale);
  return ` in ${unit}`;
}

class Scatter {
  constructor(place, tools, table) {
    Object.assign(this, { table, tools });
    this.metrics = models.columns.filter((column) => column.numeric && column.key !== "busy" && column.values.some(isNumber));
    this.backends = [...new Set(texts.backend)];
    this.lead = el("p", { class: "lead" });
    this.plot = el("div", { class: "plot canvas-plot" });
    this.legend = el("ul", { class: "legend" });
    this.front = el("ul", { class: "front", "aria-label": "Pareto front" });
    place.replaceChildren(this.lead, this.plot, this.legend, this.front);
    this.controls();
    redrawn(this.plot, (width) => this.draw(width));
    address.listeners.push((changed) => {
      if (changed.some((name) => ["x", "y"].includes(name))) this.controls();
      if (changed.some((name) => ["q", "status", "x", "y"].includes(name))) this.draw(this.plot.clientWidth);
    });
    chosen.listeners.push(() => this.paint());
  }

  /** A metric of the address; else MACs across, and up the time, or what more is better of, or the memory. */
  axis(name) {
    const of = (isOne) => this.metrics.find((column) => column.metric && isOne(column));
    const across = of(({ key }) => key === "macs") ?? this.metrics[0];
    const up = () => of(({ scale }) => scale === "time") ?? of(({ metric }) => metric.more) ?? of(({ scale }) => scale === "iec") ?? this.metrics[1] ?? across;
    return this.metrics.find((column) => column.key === address.get(name)) ?? (name === "x" ? across : up());
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

  /** The scale of an axis: logarithmic where values span far and are above zero. */
  scale(values, from, to, column) {
    const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    const text = (tick) => quantity(tick, column.unit, column.scale);
    if (low > 0 && high / low > WORTH_A_LOGARITHM) {
      const [first, last] = [low / 10 ** 0.15, high * 10 ** 0.15];
      return { at: logarithmic(first, last, from, to), ticks: (column.scale === "iec" ? powersOfTwo : decades)(first, last), text };
    }
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    const [first, last] = [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
    return { at: linear(first, last, from, to), ticks: ticksOf(first, last, 6, column.scale), text };
  }

  draw(width) {
    if (!width) return;
    const [x, y] = [this.axis("x"), this.axis("y")];
    this.points = this.table.rows.map((row) => ({ row, x: x.values[row], y: y.values[row] })).filter((point) => isNumber(point.x) && isNumber(point.y));
    this.best = paretoFront(this.points.filter((point) => !texts.flags[point.row]), this.more("x"), this.more("y"));
    this.say(x, y);
    if (!this.points.length) {
      this.plot.replaceChildren(nothing("No model that matches has a value of both metrics."));
      this.canvas = null;
      return;
    }
    const across = this.scale(this.points.map((point) => point.x), MARGIN.left + 8, width - MARGIN.right, x);
    const up = this.scale(this.points.map((point) => point.y), HEIGHT - MARGIN.bottom - 8, MARGIN.top + 14, y);
    const unit = shortened(up, y);
    const root = chart(width, HEIGHT, `${y.title} against ${x.title}`, across, up);
    root.append(svg("text", { class: "axis-name", x: MARGIN.left + 4, y: MARGIN.top + 2 }, `${y.title}${unit}`), svg("text", { class: "axis-name", x: width - MARGIN.right, y: HEIGHT - MARGIN.bottom - 6, "text-anchor": "end" }, x.title));
    for (const point of this.points) [point.across, point.up] = [across.at(point.x), up.at(point.y)];
    root.append(svg("path", { class: "front-line", d: this.steps() }));
    this.canvas = el("canvas", { onpointermove: (event) => this.hover(event), onpointerleave: () => tip.hide(), onclick: (event) => this.click(event) });
    const ratio = devicePixelRatio || 1;
    [this.canvas.width, this.canvas.height] = [width * ratio, HEIGHT * ratio];
    [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${HEIGHT}px`];
    this.plot.replaceChildren(root, this.canvas);
    this.paint();
  }

  /** The front as stairs: between two of its models nothing is known to be possible. */
  steps() {
    return this.best.map((point, at) => (at ? `H${point.across.toFixed(1)}V${point.up.toFixed(1)}` : `M${point.across.toFixed(1)},${point.up.toFixed(1)}`)).join("");
  }

  paint() {
    if (!this.canvas) return;
    const pen = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const colours = new Map(this.backends.map((backend, place) => [backend, colour(`--c${place % 10}`)]));
    const [ink, mark, soft, panel] = ["--ink", "--mark", "--soft", "--panel"].map(colour);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const dot = (point, radius, edge, wide) => {
      pen.beginPath();
      pen.arc(point.across, point.up, radius, 0, 2 * Math.PI);
      pen.fillStyle = texts.flags[point.row] ? panel : colours.get(texts.backend[point.row]);
      pen.fill();
      pen.strokeStyle = edge;
      pen.lineWidth = wide;
      pen.stroke();
    };
    const best = new Set(this.best);
    const radius = this.points.length > 2000 ? 2.5 : 4;
    const often = new Map(); // the rarest backend is drawn on top
    for (const { row } of this.points) often.set(texts.backend[row], (often.get(texts.backend[row]) ?? 0) + 1);
    const order = [...this.points].sort((one, two) => often.get(texts.backend[two.row]) - often.get(texts.backend[one.row]));
    for (const point of order) if (!best.has(point)) dot(point, radius, soft, 0.8);
    for (const point of this.best) dot(point, 5, mark, 1.6);
    const picked = this.points.find((point) => point.row === chosen.row);
    if (picked) dot(picked, 7, ink, 2.4);
    this.name(pen, [...(picked ? [picked] : []), ...this.best, ...(this.points.length <= MOST_LABELS ? order : [])], ink);
  }

  /** Write names beside points, where there is room: the first ones first. */
  name(pen, points, ink) {
    pen.font = LABEL;
    pen.fillStyle = ink;
    pen.textBaseline = "middle";
    const taken = this.points.slice(0, 500).map(({ across, up }) => [across - 5, up - 5, across + 5, up + 5]);
    const isFree = ([left, top, right, bottom]) => !taken.some((one) => one[0] < right && one[2] > left && one[1] < bottom && one[3] > top);
    for (const { row, across, up } of new Set(points.slice(0, MOST_LABELS))) {
      const text = shortName(row).slice(0, 32);
      const wide = pen.measureText(text).width;
      const places = [[across + 9, up], [across - 9 - wide, up], [across - wide / 2, up - 13], [across - wide / 2, up + 13]].map(([left, middle]) => [left, middle - 6, left + wide, middle + 6]);
      const place = places.find((one) => one[0] > MARGIN.left && one[2] < this.plot.clientWidth && isFree(one));
      if (!place) continue;
      taken.push(place);
      pen.fillText(text, place[0], place[1] + 6);
    }
  }

  say(x, y) {
    const none = this.table.rows.length - this.points.length;
    const odd = this.points.filter((point) => texts.flags[point.row]).length;
    const parts = [`${counted(this.points.length, "model")} with both metrics.`, this.best.length ? `No other beats ${this.best.length === 1 ? "the one" : `the ${this.best.length}`} on the dashed front: ${this.more("x") ? "more" : "less"} ${x.title}, ${this.more("y") ? "more" : "less"} ${y.title}.` : ""];
    if (odd) parts.push(`${counted(odd, "hollow point")}: values that cannot be right are not on the front.`);
    if (none) parts.push(`${counted(none, "model")} without a value of one of them ${none === 1 ? "is" : "are"} left out.`);
    this.lead.textContent = parts.filter(Boolean).join(" ");
    const met = new Set(this.points.map((point) => texts.backend[point.row]));
    this.legend.replaceChildren(...this.backends.flatMap((backend, place) => (met.has(backend) ? [el("li", {}, el("span", { class: `swatch c${place % 10}` }), backend)] : [])));
    const named = this.best.slice(0, MOST_NAMED).map(({ row }) => el("li", {}, el("button", { type: "button", class: "link", title: labelOf(row), onclick: () => chosen.choose(row) }, labelOf(row).slice(START.length) || labelOf(row))));
    if (this.best.length > MOST_NAMED) named.push(el("li", {}, `and ${this.best.length - MOST_NAMED} more`));
    this.front.replaceChildren(...named);
  }

  nearest(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    let [best, least] = [null, 14 * 14];
    for (const point of this.points) {
      const distance = (point.across - x) ** 2 + (point.up - y) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  }

  hover(event) {
    const point = this.nearest(event);
    if (!point) return tip.hide();
    const [x, y] = [this.axis("x"), this.axis("y")];
    const others = this.points.filter((other) => other !== point && Math.hypot(other.across - point.across, other.up - point.up) < 3);
    const hidden = others.length ? [`${others.length} more here: ${others.slice(0, 3).map((other) => labelOf(other.row)).join(", ")}${others.length > 3 ? ", ..." : ""}`] : [];
    const odd = texts.flags[point.row] ? [`not plausible: ${texts.flags[point.row]}`] : [];
    return tip.show([labelOf(point.row), `${x.title}: ${shown(x, point.row)}`, `${y.title}: ${shown(y, point.row)}`, texts.backend[point.row], ...odd, ...hidden], event.clientX, event.clientY);
  }

  click(event) {
    const point = this.nearest(event);
    if (point) chosen.choose(point.row);
  }
}
