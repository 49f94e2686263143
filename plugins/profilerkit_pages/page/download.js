// The rows of a table as a file: values in base units, in the order and with the filter that are looked at.

/** A cell of CSV; text that a spreadsheet would read as a formula gets an apostrophe, as in render/csv.py. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  const isFormula = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(value) && Number.isNaN(asNumber(value));
  const text = isFormula ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows as pairs of a column's key and its value, which is a text where JSON or the browser has no such number. */
function pairsOf(layers, rows) {
  return rows.map(
    (row) => [["path", layers.path(row)], ...layers.columns.map((column) => [column.key, column.written[row]])],
  );
}

function csvOf(layers, rows) {
  const lines = pairsOf(layers, rows).map((pairs) => pairs.map(([, value]) => csvCell(value)).join(","));
  return `${[["path", ...layers.columns.map((column) => column.key)].map(csvCell).join(","), ...lines].join("\n")}\n`;
}

function jsonOf(about, layers, rows) {
  return `${JSON.stringify({ ...about, layers: pairsOf(layers, rows).map(Object.fromEntries) }, null, 1)}\n`;
}

function saveFile(name, type, text) {
  const link = el("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Two buttons; `about` says whose rows they are, `table` which. */
function downloads(about, table) {
  const name = `${table.options.title}-${about.name}`.replace(/[^\w.-]+/g, "-").slice(0, 80);
  const button = (form, title, write) => el("button", { type: "button", title, onclick: write }, form);
  const saveCsv = () => saveFile(`${name}.csv`, "text/csv", csvOf(table.layers, table.rows));
  const saveJson = () => saveFile(`${name}.json`, "application/json", jsonOf(about, table.layers, table.rows));
  return el(
    "span",
    { class: "field", role: "group", "aria-label": "Download" },
    button("CSV", "Download these rows as CSV", saveCsv),
    button("JSON", "Download these rows as JSON, with the metrics", saveJson),
  );
}
