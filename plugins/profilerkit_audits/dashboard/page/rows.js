// The rows of the page as columns, as they were written by dashboard/page_data.py, and how their values read.

const TITLES = { spec: "Model", status: "Status", backend: "Backend", settings: "Settings", reason: "Reason", name: "Name", model_type: "Class", failure: "Failure", created: "Created", machine: "Machine", commit: "Commit", seconds: "Took", peak_bytes: "Peak of the process", busy: "Machine busy" };
/** The columns in their order around the metrics; the last ones are not shown at first. */
const BEFORE = ["spec", "status", "reason", "backend"];
const AFTER = ["settings", "seconds", "peak_bytes"];
const MORE = ["name", "model_type", "failure", "created", "machine", "commit", "busy"];
const NUMBERS = { seconds: ["s", "time"], peak_bytes: ["B", "iec"], busy: ["", "none"] };

const rows = {
  count: data.count,
  text: Object.fromEntries(Object.entries(data.columns).map(([key, values]) => [key, unpacked(values)])),
  metrics: new Map(data.metrics.map((metric) => [metric.name, metric])),
  index: new Map(data.ids.map((id, row) => [id, row])),
};
rows.text.reason = rows.text.reason.map((reason, row) => [reason, rows.text.flags[row] && `not plausible: ${rows.text.flags[row]}`].filter(Boolean).join("; "));

/** All columns that a table can have: key, title, values, and of numbers a text for each. */
const columns = [
  ...BEFORE.map((key) => [key, true]),
  ...data.metrics.map((metric) => [metric.name, true]),
  ...AFTER.map((key) => [key, true]),
  ...MORE.map((key) => [key, false]),
].map(([key, shown]) => {
  const metric = rows.metrics.get(key);
  const values = metric ? metric.values : rows.text[key];
  const [unit, scale] = metric ? [metric.unit, metric.scale] : (NUMBERS[key] ?? []);
  const numeric = Boolean(metric || NUMBERS[key]);
  return { key, metric, numeric, values, unit, scale, title: metric?.title ?? TITLES[key], shown: shown && values.some((value) => value !== null && value !== "") };
});
const columnOf = (key) => columns.find((column) => column.key === key);

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function textOf(column, row) {
  const value = column.values[row];
  if (!column.numeric) return value;
  if (isNumber(value)) return quantity(value, column.unit, column.scale);
  return column.metric?.incomplete[row]?.[0] ?? "";
}

/** How a model is called in a sentence: its spec, and its settings where it has some. */
const labelOf = (row) => (rows.text.settings[row] ? `${rows.text.spec[row]} (${rows.text.settings[row]})` : rows.text.spec[row]);

/** The machine's versions that differ between two rows of a history, as `torch 2.12 to 2.13`. */
function changedVersions(before, after) {
  const [one, two] = [data.versions[before] ?? {}, data.versions[after] ?? {}];
  const names = [...new Set([...Object.keys(one), ...Object.keys(two)])];
  return names.filter((name) => one[name] !== two[name]).map((name) => `${name} ${one[name] ?? "absent"} to ${two[name] ?? "absent"}`);
}
