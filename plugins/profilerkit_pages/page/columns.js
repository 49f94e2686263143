// The columns of a table of layers: in which order they stand, how they are called, and how wide they are.

/** Below this a share is a line without its number. */
const ROOM_FOR_SHARE = 136;

/** The keys of the columns in their order: on a phone numbers with a share come first, types and shapes last. */
function orderOf(columns) {
  const keys = (some) => some.map((column) => column.key);
  if (!narrow()) return ["path", "type", ...keys(columns)];
  const some = (isOne) => keys(columns.filter(isOne));
  return ["path", ...some((one) => one.share), ...some((one) => one.numeric && !one.share), "type", ...some((one) => !one.numeric)];
}

/** The lines of a title: what is counted, and of which model. */
function titleLines(column, key) {
  const title = column?.title ?? { path: "Layer", type: "Type" }[key];
  const cut = column?.suffix === undefined ? -1 : title.indexOf(", ");
  return cut < 0 ? [title] : [title.slice(0, cut), title.slice(cut + 2)];
}

/** The least and the best width of a column; they come from all rows, so that columns stand still while rows pass. */
function widthsOf(layers, key) {
  const column = layers.column(key);
  const title = 7.6 * titleLines(column, key).reduce((most, line) => Math.max(most, line.length), 0);
  if (column?.numeric) {
    const least = Math.max(72, Math.min(92, title + 37));
    return [least, Math.max(column.share ? 140 : 84, least, Math.min(200, title + 34))];
  }
  if (key === "path") return narrow() ? [132, 132] : [150, 260];
  const values = key === "type" ? layers.types : column.values;
  const longest = values.reduce((most, value) => Math.max(most, value.length), 0);
  const best = Math.max(72, title + 40, Math.min(7.2 * longest + 24, narrow() ? 140 : 280));
  return [Math.min(best, 110), best];
}

/** The widths of columns in a room: their best ones, or narrower ones as far as that fits them in. */
function fitted(layers, keys, room) {
  const widths = keys.map((key) => widthsOf(layers, key));
  const [least, best] = [0, 1].map((which) => widths.reduce((sum, pair) => sum + pair[which], 0));
  if (best <= room || best === least || narrow()) return widths.map((pair) => pair[1]);
  const part = Math.max(0, (room - least) / (best - least));
  return widths.map(([low, high]) => Math.floor(low + part * (high - low)));
}
