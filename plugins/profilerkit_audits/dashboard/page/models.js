// The models of an audit as rows, as dashboard/page_data.py has written them, and what they are called.

/** The columns of page_data.py by their keys. */
const texts = Object.fromEntries(Object.entries(data.columns).map(([key, values]) => [key, unpacked(values)]));
const flagOf = (row) => (texts.flags[row] ? `not plausible: ${texts.flags[row]}` : "");
texts.reason = texts.reason.map((reason, row) => [reason, flagOf(row)].filter(Boolean).join("; "));
const metrics = new Map(data.metrics.map((metric) => [metric.name, metric]));
const placeOfId = new Map(data.ids.map((id, row) => [id, row]));

/**
 * The columns before and behind the metrics, in their order. Numbers have a unit and a scale. `small`: also shown on a
 * small screen; `rare`: not shown until somebody asks for it; `isFirst` and `width` as in `Rows`.
 */
const BEFORE = {
  differing: { title: "Settings", small: true, isFirst: true },
  status: { title: "Status", isFirst: true, width: 92 },
  reason: { title: "Reason", small: true },
  backend: { title: "Backend", rare: new Set(texts.backend.filter((name) => name !== "unknown")).size < 2 },
};
const BEHIND = {
  seconds: { title: "Took", unit: "s", scale: "time" },
  peak_bytes: { title: "Peak of the process", unit: "B", scale: "iec" },
  settings: { title: "All settings", rare: true },
  name: { title: "Name", rare: true },
  model_type: { title: "Class", rare: true },
  failure: { title: "Failure", rare: true },
  created: { title: "Created", rare: true },
  machine: { title: "Machine", rare: true },
  commit: { title: "Commit", rare: true },
};
const titleOf = (key) => ({ ...BEFORE, ...BEHIND })[key].title;
/** The metrics that are shown on a small screen. */
const SMALL = ["macs", "total_params", "execution_time"];
/** The texts that a filter looks into. */
const SEARCHED = ["backend", "settings", "status", "failure", "reason", "model_type", "name"];

const hasValues = (values) => values.some((value) => value !== null && value !== "");

function plainColumn([key, { small, rare, ...looks }]) {
  const isRoom = narrow() ? Boolean(small) : !rare;
  const shown = isRoom && hasValues(texts[key]);
  return { ...looks, key, values: texts[key], numeric: looks.scale !== undefined, shown };
}

/** Whether a metric has the values of one before it in every row: then the table is narrower without it. */
function repeatsAnother({ name, values }) {
  const before = data.metrics.slice(0, data.metrics.findIndex((metric) => metric.name === name));
  return before.some((metric) => metric.values.every((value, row) => value === values[row]));
}

function metricColumn(metric) {
  const isRoom = !narrow() || SMALL.includes(metric.name);
  const shown = isRoom && hasValues(metric.values) && !repeatsAnother(metric);
  return { ...metric, key: metric.name, metric, numeric: true, shown };
}

const columns = [
  ...Object.entries(BEFORE).map(plainColumn),
  ...data.metrics.map(metricColumn),
  ...Object.entries(BEHIND).map(plainColumn),
];
const models = new Rows({ names: texts.spec, columns, texts: SEARCHED.map((key) => texts[key]) });

/** What all names begin with, up to a mark between words: on a small screen it says nothing. */
function commonStart(names) {
  const [first = ""] = names;
  let end = names.length > 1 ? first.length : 0;
  for (const name of names) while (!name.startsWith(first.slice(0, end))) end -= 1;
  return first.slice(0, end).replace(/[^:/]*$/, "");
}
const START = commonStart(texts.spec);
const shortName = (row) => texts.spec[row].slice(START.length) || texts.spec[row];

/** How a model is called in a sentence: its spec, and its settings that not all models have. */
const labelOf = (row) => (texts.differing[row] ? `${texts.spec[row]} (${texts.differing[row]})` : texts.spec[row]);

/** The machine's versions that differ between two rows of a history, as `torch 2.12 to 2.13`. */
function changedVersions(before, after) {
  const [old, recent] = [data.versions[before] ?? {}, data.versions[after] ?? {}];
  const names = Object.keys({ ...old, ...recent }).filter((name) => old[name] !== recent[name]);
  return names.map((name) => `${name} ${old[name] ?? "absent"} to ${recent[name] ?? "absent"}`);
}

/** The content of a cell that is no plain text. */
function auditCell(column, row) {
  const text = shown(column, row);
  if (column.key === "status" && text === "complete") return [text, "type"];
  if (column.key === "status") return [el("span", { class: `badge ${text}` }, text), ""];
  if (column.key === "reason") return [text, texts.flags[row] ? "note flag" : "note"];
  return [text, column.numeric ? "" : "type"];
}
