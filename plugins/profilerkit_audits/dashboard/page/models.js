// The models of an audit as rows, as dashboard/page_data.py has written them, and what they are called.

const TITLES = { spec: "Model", status: "Status", backend: "Backend", differing: "Settings", settings: "All settings", reason: "Reason", name: "Name", model_type: "Class", failure: "Failure", created: "Created", machine: "Machine", commit: "Commit", seconds: "Took", peak_bytes: "Peak of the process", busy: "Machine busy" };
/** The columns in their order around the metrics; the last ones are not shown at first, and on a phone no others than its. */
const BEFORE = ["differing", "status", "reason", "backend"];
const AFTER = ["seconds", "peak_bytes"];
const MORE = ["settings", "name", "model_type", "failure", "created", "machine", "commit", "busy"];
const PHONE = ["differing", "macs", "total_params", "execution_time", "reason"];
const NUMBERS = { seconds: ["s", "time"], peak_bytes: ["B", "iec"], busy: ["", "none"] };
const SEARCHED = ["backend", "settings", "status", "failure", "reason", "model_type", "name"];

const texts = Object.fromEntries(Object.entries(data.columns).map(([key, values]) => [key, unpacked(values)]));
texts.reason = texts.reason.map((reason, row) => [reason, texts.flags[row] && `not plausible: ${texts.flags[row]}`].filter(Boolean).join("; "));
const metrics = new Map(data.metrics.map((metric) => [metric.name, metric]));
const placeOfId = new Map(data.ids.map((id, row) => [id, row]));

/** Whether a metric has the values of one before it in every row: then the table is narrower without it. */
function repeatsAnother({ name, values }) {
  const before = data.metrics.slice(0, data.metrics.findIndex((metric) => metric.name === name));
  return before.some((metric) => metric.values.every((value, row) => value === values[row]));
}

function columnFor(key) {
  const metric = metrics.get(key);
  const values = metric ? metric.values : texts[key];
  const [unit, scale] = metric ? [metric.unit, metric.scale] : (NUMBERS[key] ?? []);
  const isOneForAll = key === "backend" && new Set(values.filter((value) => value !== "unknown")).size < 2;
  const isShown = !isOneForAll && (narrow() ? PHONE.includes(key) : !MORE.includes(key)) && !(metric && repeatsAnother(metric));
  return { key, metric, numeric: Boolean(metric || NUMBERS[key]), values, unit, scale, title: metric?.title ?? TITLES[key], incomplete: metric?.incomplete, signed: metric?.signed, isFirst: ["differing", "status"].includes(key), width: key === "status" ? 92 : 0, shown: isShown && values.some((value) => value !== null && value !== "") };
}

const models = new Rows({ names: texts.spec, columns: [...BEFORE, ...metrics.keys(), ...AFTER, ...MORE].map(columnFor), texts: SEARCHED.map((key) => texts[key]) });

/** What all names begin with, up to a mark between words: on a small screen, and beside a point, it says nothing. */
function commonStart(names) {
  const [first = ""] = names;
  let end = names.length > 1 ? first.length : 0;
  for (const name of names) while (!name.startsWith(first.slice(0, end))) end -= 1;
  return first.slice(0, end).replace(/[^:/]*$/, "");
}
const START = commonStart(texts.spec);
const shortName = (row) => texts.spec[row].slice(START.length) || texts.spec[row];
/** The name beside a point: with the settings that tell it from others of its model. */
const pointName = (row) => [shortName(row), texts.apart[row]].filter(Boolean).join(", ");

/** How a model is called in a sentence: its spec, and its settings that not all models have. */
const labelOf = (row) => (texts.differing[row] ? `${texts.spec[row]} (${texts.differing[row]})` : texts.spec[row]);

/** The machine's versions that differ between two rows of a history, as `torch 2.12 to 2.13`. */
function changedVersions(before, after) {
  const [one, two] = [data.versions[before] ?? {}, data.versions[after] ?? {}];
  const names = [...new Set([...Object.keys(one), ...Object.keys(two)])];
  return names.filter((name) => one[name] !== two[name]).map((name) => `${name} ${one[name] ?? "absent"} to ${two[name] ?? "absent"}`);
}

/** The content of a cell that is no plain text. */
function auditCell(column, row) {
  const text = shown(column, row);
  if (column.key === "status") return text === "complete" ? [text, "type"] : [el("span", { class: `badge ${text}` }, text), ""];
  if (column.key === "reason") return [text, texts.flags[row] ? "note flag" : "note"];
  return [text, column.numeric ? "" : "type"];
}
