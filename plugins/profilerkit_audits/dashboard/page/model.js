// One model: everything about its row, and the way to its own page.

class OneModel {
  constructor(section, place, tools) {
    Object.assign(this, { section, place, tools });
    this.draw();
    address.listeners.push((changed) => changed.includes("model") && this.draw());
  }

  draw() {
    const row = chosenRow();
    this.section.hidden = row < 0;
    sectionLinks();
    if (row < 0) return;
    const page = data.pages[row];
    this.tools.replaceChildren(
      page ? el("a", { href: page }, "Its own page: layers, memory, charts") : el("span", { class: "count" }, "It has no page of its own."),
      el("button", { type: "button", class: "quiet", onclick: () => choose(-1) }, "Close"),
    );
    const status = rows.text.status[row];
    const facts = ["backend", "model_type", "name", "settings", "failure", "created", "machine", "commit"].map((key) => [TITLES[key], rows.text[key][row]]);
    facts.push(["Took", quantity(rows.text.seconds[row], "s", "time")]);
    const peak = rows.text.peak_bytes[row];
    if (isNumber(peak)) facts.push(["Peak of the process", quantity(peak, "B", "iec")]);
    const versions = Object.entries(data.versions[rows.text.versions[row]] ?? {}).map(([name, version]) => `${name} ${version}`).join(", ");
    this.place.replaceChildren(
      el("p", { class: "fullname" }, rows.text.spec[row], " ", el("span", { class: `badge ${status}` }, status)),
      ...(rows.text.reason[row] ? [el("p", { class: `why ${status}` }, rows.text.reason[row])] : []),
      el("dl", { class: "facts" }, ...[...facts, ["Versions", versions]].filter(([, value]) => value !== "" && value !== "unknown").map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value)))),
      el("div", { class: "one-table" }, this.values(row)),
    );
  }

  values(row) {
    const lines = data.metrics.filter((metric) => isNumber(metric.values[row]) || metric.incomplete[row]).map((metric) => {
      const column = columnOf(metric.name);
      const [state, why] = metric.incomplete[row] ?? ["complete", ""];
      const [low, high] = metric.intervals?.[row] ?? [];
      const interval = isNumber(low) && isNumber(high) ? ` [${quantity(low, metric.unit, metric.scale)}, ${quantity(high, metric.unit, metric.scale)}]` : "";
      const exact = isNumber(metric.values[row]) && Number.isInteger(metric.values[row]) && metric.values[row] >= 10000 ? metric.values[row].toLocaleString("en-US") : "";
      return [metric.title, `${textOf(column, row)}${interval}`, exact, el("span", { class: `badge ${state}` }, state), why];
    });
    return plainTable(["Metric", "Value", "In full", "Completeness", "Reason"], lines, [1, 2]);
  }
}
