// A metric over runs: of the model that is chosen its values, else the models that moved most.

const LISTED = 100;
const HISTORY_HEIGHT = 240;

const valuesOf = (history, metric) => {
  const values = history.values[metric];
  return Array.isArray(values) ? values : history.at.map(() => values ?? null);
};

/** Last value over first; null where either is absent. */
function movement(history, metric) {
  const values = valuesOf(history, metric).filter(isNumber);
  if (values.length < 2) return null;
  if (values[0] === 0) return values.at(-1) === 0 ? 1 : Infinity;
  return values.at(-1) / values[0];
}

const signed = (ratio) => (Number.isFinite(ratio) ? `${ratio >= 1 ? "+" : "−"}${formatNumber(Math.abs(100 * (ratio - 1)))} %` : "from zero");

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

/** How values of a metric are written: counts that differ differ in text too, times have the digits that are known. */
function metricWriter({ unit, scale }, values) {
  const write = writerOf(scale === "time" ? [] : values.filter(isNumber), unit, scale);
  return (value) => (isNumber(value) ? write(value) : "none");
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
    address.listeners.push((changed) => changed.some((name) => ["q", "status", "metric", "model"].includes(name)) && this.draw(this.plot.clientWidth));
  }

  get metric() {
    return metrics.get(address.get("metric")) ?? metrics.get("macs") ?? data.metrics[0];
  }

  /** The rows that match and were measured more than once. */
  compared() {
    const shown = new Set(this.table.rows);
    return [...this.histories].filter(([row]) => shown.has(row));
  }

  /** Those whose metric moved, most first. */
  moved(compared) {
    return compared
      .map(([row, history]) => ({ row, history, ratio: movement(history, this.metric.name) }))
      .filter(({ ratio }) => ratio !== null && ratio !== 1)
      .sort((one, two) => Math.abs(Math.log(two.ratio)) - Math.abs(Math.log(one.ratio)) || one.row - two.row);
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
    const values = valuesOf(history, name);
    this.lead.textContent = `${title} of ${labelOf(row)}, measured ${history.at.length} times.`;
    this.line(row, history, values, width);
    this.list.replaceChildren(this.steps(history, values));
  }

  drawMoved() {
    const all = this.compared();
    const [moved, compared] = [this.moved(all), all.length];
    const { title } = this.metric;
    this.plot.replaceChildren();
    this.lead.textContent = moved.length
      ? `${title} moved in ${grouped(moved.length)} of ${counted(compared, "model")} measured more than once, those that moved most first. Choose a model to see its own history.`
      : `${title} is the same in the first and the last measurement of ${compared === 1 ? "the one model" : `all ${grouped(compared)} models`} measured more than once. Choose a model to see its own history.`;
    this.list.replaceChildren(...(moved.length ? [this.listing(moved)] : []));
  }

  /** A line over the moments of measurement; a model that failed leaves a gap. */
  line(row, history, values, width) {
    const { title } = this.metric;
    const written = metricWriter(this.metric, values);
    const numbers = values.filter(isNumber);
    if (!numbers.length) return void this.plot.replaceChildren(nothing("This metric has no value in any of the measurements."));
    const moments = history.at;
    const across = linear(0, Math.max(1, moments.length - 1), MARGIN.left + 14, width - MARGIN.right - 24);
    const up = leftAxisOf(numbers, HISTORY_HEIGHT - MARGIN.bottom, MARGIN.top + 12, this.metric);
    const digits = new Set(moments.map((moment) => moment.slice(0, 16))).size < moments.length ? 19 : 16; // seconds only where minutes are equal
    const root = chart(width, HISTORY_HEIGHT, title, { ticks: moments.map((_, place) => place), at: across, text: (place) => moments[place].slice(0, digits) }, up);
    let [path, points] = ["", []];
    values.forEach((value, at) => {
      if (!isNumber(value)) return;
      const [x, y] = [across(at), up.at(value)];
      path += `${isNumber(values[at - 1]) ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
      const point = svg("circle", { class: "point", cx: x, cy: y, r: 4 });
      const changed = at ? changedBetween(history, at - 1, at) : [];
      point.addEventListener("pointermove", (event) => tip.show([labelOf(row), `${moments[at]} UTC: ${written(value)}`, ...changed], event.clientX, event.clientY));
      point.addEventListener("pointerleave", () => tip.hide());
      points.push(point);
    });
    root.append(svg("path", { class: "line", d: path }), ...points);
    return void this.plot.replaceChildren(root);
  }

  steps(history, values) {
    const written = metricWriter(this.metric, values);
    const lines = history.at.map((at, place) => {
      const value = values[place];
      const before = place ? values[place - 1] : null;
      const change = isNumber(value) && isNumber(before) && value !== before ? signed(before ? value / before : Infinity) : "";
      const changed = place ? changedBetween(history, place - 1, place).join("; ") : "";
      return [at, history.status[place], written(value), change, changed];
    });
    return plainTable(["Measured (UTC)", "Status", this.metric.title, "Change", "What else changed"], lines, [2, 3]);
  }

  listing(moved) {
    const lines = moved.slice(0, LISTED).map(({ row, history, ratio }) => {
      const values = valuesOf(history, this.metric.name).filter(isNumber);
      const written = metricWriter(this.metric, [values[0], values.at(-1)]);
      const changed = changedBetween(history, 0, history.at.length - 1).join("; ");
      return [el("button", { type: "button", class: "link", onclick: () => chosen.choose(row) }, labelOf(row)), written(values[0]), written(values.at(-1)), signed(ratio), changed];
    });
    if (moved.length > LISTED) lines.push([`and ${moved.length - LISTED} more`, "", "", "", ""]);
    return plainTable(["Model", "First", "Last", "Change", "What else changed"], lines, [1, 2, 3]);
  }
}
