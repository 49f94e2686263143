// Rows with columns, in a tree or in a list, as the Python side has written them: layers, operators, models of an audit.

const INFINITE = { inf: Infinity, "-inf": -Infinity };
/** The number that a text stands for; of many digits it is the nearest that the browser has. */
const asNumber = (value) => (typeof value === "string" ? (INFINITE[value] ?? Number(value)) : value);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** The outermost layer in an address: its path is empty. */
const ROOT = "(model)";

/** Rows in a tree, by the place of each row's parent (-1 for none). */
class Tree {
  constructor(parents) {
    this.parents = parents;
    this.count = parents.length;
    this.children = parents.map(() => []);
    this.roots = [];
    parents.forEach((parent, row) => (parent < 0 ? this.roots : this.children[parent]).push(row));
    this.depths = new Array(this.count).fill(0);
    this.order = [];
    this.walk((row) => {
      this.order.push(row);
      this.depths[row] = this.parents[row] < 0 ? 0 : this.depths[this.parents[row]] + 1;
      return true;
    });
    this.deepest = this.depths.reduce((most, depth) => Math.max(most, depth), 0);
  }

  /** Visit rows from the outside in; `visit` says whether to go on inside. No recursion: models nest without limit. */
  walk(visit, sorted = (rows) => rows) {
    const waiting = [...sorted(this.roots)].reverse();
    while (waiting.length) {
      const row = waiting.pop();
      if (!visit(row)) continue;
      const inside = sorted(this.children[row]);
      for (let place = inside.length - 1; place >= 0; place -= 1) waiting.push(inside[place]);
    }
  }

  /** A row and all that is inside it. */
  within(row) {
    const rows = [row];
    for (const one of rows) rows.push(...this.children[one]);
    return rows;
  }

  *around(row) {
    for (let at = this.parents[row]; at >= 0; at = this.parents[at]) yield at;
  }
}

/**
 * Named rows with columns of values. Without `parents` they are a list. `texts` are further texts that a filter looks
 * into. A column has: key, title, unit, scale, numeric, share (of the whole), shown (at first), values, and the same as
 * they were `written`; `whole`, where that is not the sum of a list; and by the row `incomplete`, the state and the reason
 * of a value that is not complete, and `signed`, what a bound is shown as: "≥ " or another sign, and the number behind it.
 */
class Rows {
  constructor({ parents, names, types, columns, texts = [] }) {
    this.names = unpacked(names);
    this.tree = new Tree(parents ?? this.names.map(() => -1));
    this.types = types && unpacked(types);
    const type = { key: "type", title: "Type", numeric: false, share: false, shown: true, values: this.types };
    this.columns = [...(types ? [type] : []), ...columns].map((column) => {
      const written = unpacked(column.values);
      return { ...column, written, values: column.numeric ? written.map(asNumber) : written };
    });
    for (const column of this.columns) column.whole = asNumber(column.whole) ?? this.whole(column);
    this.texts = types ? [this.types, ...texts] : texts;
    this.paths = new Map();
  }

  /** What shares are shares of: the outermost layer's value, or the sum of those, where there are several. */
  whole(column) {
    const values = column.share ? this.tree.roots.map((row) => column.values[row]) : [];
    return values.length && values.every(Number.isFinite) ? values.reduce((sum, value) => sum + value, 0) : 0;
  }

  path(row) {
    if (!this.paths.has(row)) {
      const names = [row, ...this.tree.around(row)].map((at) => this.names[at]).filter(Boolean);
      this.paths.set(row, names.reverse().join("."));
    }
    return this.paths.get(row);
  }

  label(row) {
    return this.path(row) || ROOT;
  }

  name(row) {
    return this.names[row] || ROOT;
  }

  /** The row of a path as the address has it, or -1. */
  rowOf(path) {
    this.places ??= new Map([...this.tree.order].reverse().map((row) => [this.label(row), row]));
    return this.places.get(path) ?? -1;
  }

  column(key) {
    return this.columns.find((column) => column.key === key);
  }

  /** The values that layers can be sized by. */
  get sizes() {
    return this.columns.filter((column) => column.share && column.values.some((value) => value > 0));
  }

  /** What layers are sized by at first: their time, or their MACs, or what else they have. */
  get usualSize() {
    return ["forward_seconds", "macs"].map((key) => this.column(key)).find((column) => column?.whole > 0) ?? this.sizes[0];
  }

  /** All that a filter looks into, in small letters. */
  haystack(row) {
    this.haystacks ??= [];
    return (this.haystacks[row] ??= [this.label(row), ...this.texts.map((texts) => texts[row])].join("\n").toLowerCase());
  }
}

/** The text of a value. */
function shown(column, row) {
  if (!column.numeric) return column.values[row];
  const [sign, value] = column.signed?.[row] ?? ["", column.values[row]];
  if (value === null || value === undefined) return column.incomplete?.[row]?.[0] ?? "-";
  if (value === 0 && !sign && column.dashes && column.scale !== "time") return "-";
  const plus = column.suffix === "_difference" && value > 0 ? "+" : "";
  return `${sign}${plus}${quantity(value, column.unit, column.scale)}`;
}

/** Which part of the whole of its column a value is; 0 for nothing, and where there is no whole. */
const partOf = (column, value) => (column.share && column.whole > 0 && value > 0 ? value / column.whole : 0);

/** That part in per cent; empty for nothing, and in a column of bounds, of which the whole is not known exactly. */
function shareText(column, value) {
  const part = partOf(column, value);
  return part && !column.signed ? percent(part) : "";
}

/** A choice of what layers are sized or coloured by. */
function sizeChoice(text, sizes, size, onChoose) {
  return choice(
    text,
    sizes.map(({ key, title }) => [key, title]),
    size?.key,
    (chosenKey) => onChoose(sizes.find(({ key }) => key === chosenKey)),
  );
}

/** The order of rows by what `weight` says of each; one without a weight comes last either way. */
function orderBy(weight, down) {
  const sign = down ? -1 : 1;
  const absent = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  return (one, two) => {
    const [a, b] = [weight(one), weight(two)];
    if (absent(a) || absent(b)) return absent(a) - absent(b) || one - two;
    return a === b ? one - two : a < b ? -sign : sign;
  };
}

/** The types of layers by how many there are; the first have a colour each, the others share one. */
const COLOURS = 9;
function coloursOf(...models) {
  const met = new Map();
  for (const layers of models) {
    layers.types.forEach((type, row) => {
      if (!layers.tree.children[row].length) met.set(type, (met.get(type) ?? 0) + 1);
    });
  }
  const ranked = [...met].sort((one, two) => two[1] - one[1] || (one[0] < two[0] ? -1 : 1)).map(([type]) => type);
  return new Map(ranked.map((type, place) => [type, Math.min(place, COLOURS)]));
}

/** The row that is looked at: every view shows it, whichever it was chosen in. */
const chosen = {
  row: -1,
  listeners: [],
  choose(row, from) {
    this.row = row;
    for (const listener of this.listeners) listener(row, from);
  },
};
