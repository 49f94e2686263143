// Which rows match: words that each must occur, and conditions such as macs>1G, type=conv2d, forward_seconds>1ms.

const FACTORS = { k: 1e3, m: 1e6, g: 1e9, t: 1e12, p: 1e15, ki: 2 ** 10, mi: 2 ** 20, gi: 2 ** 30, ti: 2 ** 40 };
const SECONDS = { s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9 };

/** The number of 1.5G, 4GiB or 20ms in base units; NaN for what is none. */
function numberOf(text, scale) {
  const [, digits, unit] = /^([-+]?[\d.,]*\d(?:e[-+]?\d+)?)\s*([a-zµ]*)$/i.exec(text) ?? [];
  if (digits === undefined) return NaN;
  const number = Number(digits.replaceAll(",", ""));
  const word = unit.toLowerCase();
  if (!word) return number;
  if (scale === "time") return number * (SECONDS[word] ?? NaN);
  return number * (FACTORS[word] ?? FACTORS[word.replace(/b$/, "")] ?? (word === "b" ? 1 : NaN));
}

const COMPARED = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
};

/** A condition on a column, or null where the word is only a word. */
function condition(rows, word) {
  const [, key, sign, text] = /^([a-z_0-9]+)(<=|>=|<|>|=)(.+)$/i.exec(word) ?? [];
  const column = key && rows.column(key.toLowerCase());
  if (!column) return null;
  if (!column.numeric) return sign === "=" ? (row) => column.values[row].toLowerCase() === text.toLowerCase() : null;
  const number = numberOf(text, column.scale);
  return Number.isNaN(number) ? null : (row) => isNumber(column.values[row]) && COMPARED[sign](column.values[row], number);
}

/** Whether a row matches what is typed; null where nothing is. */
function matcher(rows, typed) {
  const words = typed.trim().split(/\s+/).filter(Boolean);
  const conditions = words.map((word) => condition(rows, word) ?? ((row) => rows.haystack(row).includes(word.toLowerCase())));
  return conditions.length ? (row) => conditions.every((holds) => holds(row)) : null;
}
