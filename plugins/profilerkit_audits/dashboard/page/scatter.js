// Two metrics against each other, a dot for each model that matches, and the Pareto front: what nothing else beats.

const HEIGHT = 380;
const MOST_NAMED = 60;
const WORTH_A_LOGARITHM = 30;
const LONGEST_TICK = 12;

/** The rows that no other row beats in one metric without being worse in the other, by the first metric. */
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
    this.table = table;
    this.metrics = columns.filter((column) => column.numeric && column.key !== "busy" && column.values.some(isNumber));
    const entries = this.metrics.map((column) => [column.key, column.title]);
    this.tools = tools;
    this.lead = el("p", { class: "lead" });
    this.plot = el("div", { class: "plot canvas-plot" });
    this.legend = el("ul", { class: "legend" });
    this.front = el("ul", { class: "front", "aria-label": "Pareto front" });
    place.replaceChildren(this.lead, this.plot, this.legend, this.front);
    this.entries = entries;
    this.backends = [...new Set(rows.text.backend)];
    this.controls();
    redrawn(this.plot, (width) => this.draw(width));
    address.listeners.push((changed) => {
      if (changed.some((name) => ["x", "y", "better", "log"].includes(name))) this.controls();
      if (changed.some((name) => ["q", "status", "x", "y", "better", "log"].includes(name))) this.later();
      else if (changed.includes("model")) this.paint();
    });
  }

  axis(name) {
    const fallback = name === "x" ? (this.metrics.find((column) => column.key === "macs") ?? this.metrics[0]) : (this.metrics.find((column) => column.metric?.more) ?? this.metrics.find((column) => column.key === "memory_footprint") ?? this.metrics[1] ?? this.metrics[0]);
    return this.metrics.find((column) => column.key === address.state[name]) ?? fallback;
  }

  /** Whether more of a metric is better: what the metric says, unless the address says otherwise. */
  more(name) {
    const stated = address.state.better.split("-");
    const word = stated[name === "x" ? 0 : 1];
    return word ? word === "more" : Boolean(this.axis(name).metric?.more);
  }

  controls() {
    const metric = (name) => choice(name === "x" ? "Across" : "Up", this.entries, this.axis(name).key, (key) => address.set({ [name]: key, better: "" }));
    const better = (name) => switchOf(`Better ${name}`, [["less", "less is better"], ["more", "more"]], this.more(name) ? "more" : "less", (word) => {
      const other = this.more(name === "x" ? "y" : "x") ? "more" : "less";
      address.set({ better: name === "x" ? `${word}-${other}` : `${other}-${word}` });
    });
    this.tools.replaceChildren(metric("x"), better("x"), metric("y"), better("y"), choice("Scale", [["", "as fits"], ["log", "logarithmic"], ["linear", "linear"]], address.state.log, (log) => address.set({ log })));
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw(this.plot.clientWidth);
    });
  }

  /** The scale of an axis: logarithmic where values span far and are above zero. */
  scale(values, from, to, column) {
    const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    const { log } = address.state;
    if (log !== "linear" && low > 0 && (log === "log" || high / low > WORTH_A_LOGARITHM)) {
      const [first, last] = [low / 10 ** 0.15, high * 10 ** 0.15];
      return { at: logarithmic(first, last, from, to), ticks: (column.scale === "iec" ? powersOfTwo : decades)(first, last), text: (tick) => quantity(tick, column.unit, column.scale) };
    }
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    const [first, last] = [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
    return { at: linear(first, last, from, to), ticks: ticksOf(first, last, 6, column.scale), text: (tick) => quantity(tick, column.unit, column.scale) };
  }

  draw(width) {
    if (!width) return;
    const [x, y] = [this.axis("x"), this.axis("y")];
    const log = address.state.log === "log";
    const all = this.table.rows.map((row) => ({ row, x: x.values[row], y: y.values[row] })).filter((point) => isNumber(point.x) && isNumber(point.y));
    this.points = log ? all.filter((point) => point.x > 0 && point.y > 0) : all;
    this.best = paretoFront(this.points, this.more("x"), this.more("y"));
    this.say(x, y, all.length - this.points.length);
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
    const context = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const probe = getComputedStyle(this.canvas);
    const resolved = (name) => {
      this.canvas.style.color = `var(${name})`;
      return probe.color;
    };
    const colours = this.backends.map((_, place) => resolved(`--c${place % 10}`));
    const [ink, mark, soft] = [resolved("--ink"), resolved("--mark"), resolved("--soft")];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const best = new Set(this.best.map((point) => point.row));
    const dot = (point, radius, edge, wide) => {
      context.beginPath();
      context.arc(point.across, point.up, radius, 0, 2 * Math.PI);
      context.fillStyle = colours[this.backends.indexOf(rows.text.backend[point.row])] ?? style.color;
      context.fill();
      context.strokeStyle = edge;
      context.lineWidth = wide;
      context.stroke();
    };
    const radius = this.points.length > 2000 ? 2.5 : 4;
    const often = new Map(); // the rarest backend is drawn on top
    for (const { row } of this.points) often.set(rows.text.backend[row], (often.get(rows.text.backend[row]) ?? 0) + 1);
    const order = [...this.points].sort((one, two) => often.get(rows.text.backend[two.row]) - often.get(rows.text.backend[one.row]));
    for (const point of order) if (!best.has(point.row)) dot(point, radius, soft, 0.8);
    for (const point of this.best) dot(point, 5, mark, 1.6);
    const chosen = this.points.find((point) => point.row === chosenRow());
    if (chosen) dot(chosen, 7, ink, 2.4);
  }

  say(x, y, left) {
    const none = this.table.rows.length - this.points.length - left;
    const parts = [`${counted(this.points.length, "model")} with both metrics.`, this.points.length ? `No other beats ${this.best.length === 1 ? "the one" : `the ${this.best.length}`} on the dashed front: ${this.more("x") ? "more" : "less"} ${x.title}, ${this.more("y") ? "more" : "less"} ${y.title}.` : ""];
    if (none) parts.push(`${counted(none, "model")} without a value of one of them ${none === 1 ? "is" : "are"} left out.`);
    if (left) parts.push(`${counted(left, "model")} with zero or less cannot stand on a logarithmic axis.`);
    this.lead.textContent = parts.filter(Boolean).join(" ");
    const shown = new Set(this.points.map((point) => rows.text.backend[point.row]));
    this.legend.replaceChildren(...this.backends.flatMap((backend, place) => (shown.has(backend) ? [el("li", {}, el("span", { class: `swatch c${place % 10}` }), backend)] : [])));
    const named = this.best.slice(0, MOST_NAMED).map(({ row }) => el("li", {}, el("button", { type: "button", class: "link", onclick: () => choose(row) }, labelOf(row))));
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
    return tip.show([labelOf(point.row), `${x.title}: ${textOf(x, point.row)}`, `${y.title}: ${textOf(y, point.row)}`, rows.text.backend[point.row], ...hidden], event.clientX, event.clientY);
  }

  click(event) {
    const point = this.nearest(event);
    if (point) choose(point.row);
  }
}
