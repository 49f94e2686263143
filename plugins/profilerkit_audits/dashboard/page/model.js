// One model: everything about its row, and the way to its own page.

class OneModel {
  constructor(section, place, tools) {
    Object.assign(this, { section, place, tools });
    this.draw();
    chosen.listeners.push(() => this.draw());
  }

  draw() {
    const { row } = chosen;
    this.section.hidden = row < 0;
    links();
    if (row < 0) return;
    const page = data.pages[row];
    this.tools.replaceChildren(
      page ? el("a", { href: page }, "Its own page: layers, memory, charts") : el("span", { class: "count" }, "It has no page of its own."),
      el("button", { type: "button", class: "quiet", onclick: () => chosen.choose(-1) }, "Close"),
    );
    const status = texts.status[row];
    const facts = ["backend", "model_type", "name", "settings", "failure", "created", "machine", "commit"].map((key) => [titleOf(key), texts[key][row]]);
    facts.push(["Took", quantity(texts.seconds[row], "s", "time")]);
    const peak = texts.peak_bytes[row];
    if (isNumber(peak)) facts.push(["Peak of the process", quantity(peak, "B", "iec")]);
    const versions = Object.entries(data.versions[texts.versions[row]] ?? {}).map(([name, version]) => `${name} ${version}`).join(", ");
    this.place.replaceChildren(
      el("p", { class: "fullname" }, texts.spec[row], " ", el("span", { class: `badge ${status}` }, status)),
      ...(texts.reason[row] ? [el("p", { class: `why ${status}` }, texts.reason[row])] : []),
      factList([...facts, ["Versions", versions]].filter(([, value]) => value !== "" && value !== "unknown")),
      el("div", { class: "one-table" }, this.values(row)),
    );
  }

  values(row) {
    const lines = data.metrics.filter((metric) => isNumber(metric.values[row]) || metric.incomplete[row]).map((metric) => {
      const column = models.column(metric.name);
      const [state, why] = metric.incomplete[row] ?? ["complete", ""];
      const [low, high] = metric.intervals[row] ?? [];
      const interval = isNumber(low) && isNumber(high) ? ` [${quantity(low, metric.unit, metric.scale)}, ${quantity(high, metric.unit, metric.scale)}]` : "";
      const value = metric.values[row];
      const exact = Number.isSafeInteger(value) && value >= 10000 ? grouped(value) : ""; // of larger ones not all digits are known here
      const badge = state === "complete" ? state : el("span", { class: `badge ${state}` }, state);
      return [metric.title, `${shown(column, row)}${interval}`, exact, badge, why];
    });
    return plainTable(["Metric", "Value", "In full", "Completeness", "Reason"], lines, [1, 2]);
  }
}
