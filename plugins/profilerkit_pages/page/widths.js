// How wide the columns of a table are. The widths come from many rows, so that columns stand still while rows pass.

/** What a cell and a heading have beside their texts. */
const [CELL, HEAD] = [17, 31];
/** The room of a share beside a number; where it lacks, the share is a line alone. */
const ROOM_FOR_SHARE = 62;
/** The rows from which the width of texts is told; of numbers all are looked at, as none is ever cut. */
const SAMPLED = 300;
const narrow = () => innerWidth < 640; // as the style sheet has it

/** The lines of a title: what is counted, and of which model. */
function titleLines(column) {
  const cut = column.suffix === undefined ? -1 : column.title.indexOf(", ");
  return cut < 0 ? [column.title] : [column.title.slice(0, cut), column.title.slice(cut + 2)];
}

/** The width of the widest of some texts, in the size that the style sheet has. */
const widest = (texts, weight) => Math.ceil(texts.reduce((most, text) => Math.max(most, textWidth(text, 13, weight)), 0));

/** The widths of the longest line of a title, and of its longest word. */
const titleWidths = (column) => [titleLines(column), column.title.split(" ")].map((texts) => widest(texts, "bold"));

class ColumnWidths {
  /** `order` has all rows; `names` is the column of names, `wideKey()` the key of a column of texts that takes room. */
  constructor(order, names, wideKey) {
    Object.assign(this, { order, names, wideKey, widths: new Map() });
  }

  /** The widths of columns in a room: their best ones, or narrower ones as far as that fits them in. */
  fit(columns, room) {
    const ranges = columns.map((column) => this.range(column));
    const sum = (end) => ranges.reduce((total, range) => total + range[end], 0);
    const [least, best] = [sum("least"), sum("best")];
    if (narrow()) return ranges.map((range) => range.least);
    if (best <= room || best === least) return ranges.map((range) => range.best);
    const part = Math.max(0, (room - least) / (best - least));
    return ranges.map((range) => Math.floor(range.least + part * (range.best - range.least)));
  }

  /** Whether a column of a width has no room for shares beside its numbers. */
  isTight(column, width) {
    return width < this.longestText(column) + ROOM_FOR_SHARE;
  }

  /** The least and the best width of a column. */
  range(column) {
    if (column === this.names) return this.rangeOfNames();
    if (column.width) return { least: column.width, best: column.width };
    if (column.numeric) return this.rangeOfNumbers(column);
    if (this.wideKey() === column.key && !narrow()) return { least: 460, best: 460 };
    const [title, word] = titleWidths(column);
    const best = Math.max(72, title + 40, Math.min(this.longestText(column), narrow() ? 140 : 280));
    return { least: Math.min(best, column.isFirst ? 180 : Math.max(78, word + 40)), best }; // what tells rows apart is cut last
  }

  rangeOfNames() {
    if (narrow()) return { least: 132, best: 132 };
    const longest = Math.max(textWidth(ROOT, 13) + CELL, this.longestText(this.names));
    return { least: Math.min(150, longest + this.names.indent), best: 280 };
  }

  /** A number is never cut: half of it would be another one. */
  rangeOfNumbers(column) {
    const [title, word] = titleWidths(column);
    const numbers = this.longestText(column);
    const least = Math.max(72, Math.min(130, word + HEAD), numbers);
    return { least, best: Math.max(column.share ? numbers + ROOM_FOR_SHARE : 84, least, Math.min(200, title + 34)) };
  }

  /** The width of the longest text of a column, without its share. */
  longestText(column) {
    if (!this.widths.has(column)) {
      const rows = column.numeric ? this.order : this.order.slice(0, SAMPLED);
      const texts = [...new Set(rows.map((row) => shown(column, row)))];
      const longest = texts.reduce((most, text) => Math.max(most, text.length), 0);
      this.widths.set(column, widest(texts.filter((text) => text.length > longest - 3), "") + CELL);
    }
    return this.widths.get(column);
  }
}
