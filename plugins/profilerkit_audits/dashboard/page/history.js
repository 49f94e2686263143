// A metric over runs: of the model that is chosen its values, else the models that moved most.

const LISTED = 100;
const HISTORY_HEIGHT = 240;

/** The measurements of a metric: the place of each, its value (null for none), and the sign of a bound. */
function pointsOf(history, metric) {
  const values = history.values[metric];
  const signs = history.signs[metric] ?? {};
  return history.at.map((_, at) => ({ at, value: (Array.isArray(values) ? values[at] : values) ?? null, sign: signs[at] ?? "" }));
}

const numbersOf = (points) => points.filter(({ value }) => isNumber(value));

/** The change from one value to another, as a share of the first; null if one of them is a bound, whose change is not known. */
function movement(one, two) {
  if (one.value === two.value && one.sign === two.sign) return 0;
  if (one.sign || two.sign) return null;
  return one.value ? (two.value - one.value) / Math.abs(one.value) : Infinity;
}

function inPercent(share) {
  if (!share) return "";
  return Number.isFinite(share) ? `${share > 0 ? "+" : "−"}${formatNumber(Math.abs(100 * share))} %` : "from zero";
}

/** What else differs between two measurements: versions, the model's own code, the commit, the kind of machine. */
function changedBetween(history, one, two) {
  const differs = (name) => history[name][one] !== history[name][two];
  return [
    ...changedVersions(history.versions[one], history.versions[two]),
    ...(differs("code") ? ["the model's own code"] : []),
    ...(differs("commit") ? [`commit ${history.commit[two] || "unknown"}`] : []),
    ...(differs("machine") ? ["the kind of machine"] : []),
  ];
}

/** How measurements are written: counts that differ differ in text too, times have the digits that are known. */
function pointWriter({ unit, scale }, points) {
  const write = writerOf(scale === "time" ? [] : numbersOf(points).map(({ value }) => value), unit, scale);
  return ({ value, sign }) => (isNumber(value) ? `${sign}${write(value)}` : "none");
}

/** The axis of the moments of measurement, with their seconds only where minutes are equal. */
function momentAxis(moments, width) {
  const minutes = new Set(moments.map((moment) => moment.slice(0, 16)));
  const digits = minutes.size < moments.length ? 19 : 16;
  const at = linear(0, Math.max(1, moments.length - 1), MARGIN.left + 14, width - MARGIN.right - 24);
  return { ticks: moments.map((_, place) => place), at, text: (place) => moments[place].slice(0, digits) };
}

/** The path through points that have a value: it begins anew behind one that has none. */
function linePath(points, across, up) {
  const parts = numbersOf(points).map(({ at, value }) => {
    const command = isNumber(points[at - 1]?.value) ? "L" : "M";
    return `${command}${across.at(at).toFixed(1)},${up.at(value).toFixed(1)}`;
  });
  return parts.join("");
}

class History {
  constructor(place, tools, table) {
    this.table = table;
    this.histories = new Map(Object.entries(data.histories).map(([row, history]) => [Number(row), history]));
    const entries = data.metrics.map((metric) => [metric.name, metric.title]);
    tools.replaceChildren(choice("Metric", entries, this.metric.name, (metric) => address.set({ metric })));
    this.lead = el("p", { class: "lead" });
    this.plot = el("div", { class: "plot" });
    this.list = el("div", { class: "one-table" });
    place.replaceChildren(this.lead, this.plot, this.list);
    redrawn(this.plot, (width) => this.draw(width));
    address.listeners.push((changed) => {
      if (changed.some((name) => ["q", "status", "metric", "model"].includes(name))) this.draw(this.plot.clientWidth);
    });
  }

  get metric() {
    return metrics.get(address.get("metric")) ?? metrics.get("macs") ?? data.metrics[0];
  }

  /** The rows that match and were measured more than once. */
  compared() {
    const shown = new Set(this.table.rows);
    return [...this.histories].filter(([row]) => shown.has(row));
  }

  /** Those whose metric differs between the first and the last value, most first. */
  moved(compared) {
    const moved = [];
    for (const [row, history] of compared) {
      const points = numbersOf(pointsOf(history, this.metric.name));
      const [first, last] = [points[0], points.at(-1)];
      const share = points.length > 1 ? movement(first, last) : 0;
      if (share !== 0) moved.push({ row, history, first, last, share });
    }
    return moved.sort((one, two) => Math.abs(two.share) - Math.abs(one.share) || one.row - two.row);
  }

  draw(width) {
    if (!width) return;
    const { row } = chosen;
    const one = this.histories.get(row);
    if (one) this.drawOne(row, one, width);
    else this.drawMoved();
  }

  drawOne(row, history, width) {
    const { name, title } = this.metric;
    const points = pointsOf(history, name);
    this.lead.textContent = `${title} of ${labelOf(row)}, measured ${history.at.length} times.`;
    this.line(row, history, points, width);
    this.list.replaceChildren(this.steps(history, points));
  }

  drawMoved() {
    const compared = this.compared();
    const moved = this.moved(compared);
    const all = compared.length === 1 ? "the one model" : `all ${grouped(compared.length)} models`;
    const found = moved.length
      ? `moved in ${grouped(moved.length)} of ${counted(compared.length, "model")} measured more than once, those that moved most first`
      : `is the same in the first and the last measurement of ${all} measured more than once`;
    this.plot.replaceChildren();
    this.lead.textContent = `${this.metric.title} ${found}. Choose a model to see its own history.`;
    this.list.replaceChildren(...(moved.length ? [this.listing(moved)] : []));
  }

  /** A line over the moments of measurement; a model that failed leaves a gap. */
  line(row, history, points, width) {
    const measured = numbersOf(points);
    if (!measured.length) {
      this.plot.replaceChildren(nothing("This metric has no value in any of the measurements."));
      return;
    }
    const across = momentAxis(history.at, width);
    const up = leftAxisOf(measured.map(({ value }) => value), HISTORY_HEIGHT - MARGIN.bottom, MARGIN.top + 12, this.metric);
    const written = pointWriter(this.metric, points);
    const dots = measured.map((point) => {
      const changes = point.at ? changedBetween(history, point.at - 1, point.at) : [];
      const lines = [labelOf(row), `${history.at[point.at]} UTC: ${written(point)}`, ...changes];
      return this.dot(across.at(point.at), up.at(point.value), lines);
    });
    const root = chart(width, HISTORY_HEIGHT, this.metric.title, across, up);
    root.append(svg("path", { class: "line", d: linePath(points, across, up) }), ...dots);
    this.plot.replaceChildren(root);
  }

  /** A point of the line, with what stands in its tip. */
  dot(x, y, lines) {
    const node = svg("circle", { class: "point", cx: x, cy: y, r: 4 });
    node.addEventListener("pointermove", (event) => tip.show(lines, event.clientX, event.clientY));
    node.addEventListener("pointerleave", () => tip.hide());
    return node;
  }

  steps(history, points) {
    const written = pointWriter(this.metric, points);
    const lines = points.map((point, place) => {
      const before = points[place - 1] ?? {};
      const share = isNumber(point.value) && isNumber(before.value) ? movement(before, point) : 0;
      const changed = place ? changedBetween(history, place - 1, place).join("; ") : "";
      return [history.at[place], history.status[place], written(point), inPercent(share), changed];
    });
    return plainTable(["Measured (UTC)", "Status", this.metric.title, "Change", "What else changed"], lines, [2, 3]);
  }

  listing(moved) {
    const lines = moved.slice(0, LISTED).map(({ row, history, first, last, share }) => {
      const written = pointWriter(this.metric, [first, last]);
      const changed = changedBetween(history, first.at, last.at).join("; ");
      const name = el("button", { type: "button", class: "link", onclick: () => chosen.choose(row) }, labelOf(row));
      return [name, written(first), written(last), inPercent(share), changed];
    });
    if (moved.length > LISTED) lines.push([`and ${moved.length - LISTED} more`, "", "", "", ""]);
    return plainTable(["Model", "First", "Last", "Change", "What else changed"], lines, [1, 2, 3]);
  }
}
