// Where each layer lies in the map. What is too small to be seen is put together, so that the number of boxes depends on
// the picture, not on the model.

const LEVEL = 26;
const MOST_LEVELS = 14;
const NARROWEST = 1.5;

/** What a layer counts in a picture: a number above zero, or nothing. */
const weightOf = (column, row) => (column.values[row] > 0 && Number.isFinite(column.values[row]) ? column.values[row] : 0);

/** The whole of a layer: at least what the layers inside it add up to (shared weights count in each of them). */
function extent(layers, column, row) {
  return Math.max(weightOf(column, row), layers.tree.children[row].reduce((sum, inside) => sum + weightOf(column, inside), 0));
}

/** Boxes from the top down, as wide as their share. Neighbours too narrow to draw are one box, `more` of them. */
function icicle(layers, column, root, width) {
  const boxes = [];
  const waiting = [{ row: root, x: 0, w: width, level: 0 }];
  while (waiting.length) {
    const { row, x, w, level } = waiting.pop();
    boxes.push({ row, x, y: level * LEVEL, w, h: LEVEL - 1, level });
    const inside = layers.tree.children[row];
    const whole = extent(layers, column, row);
    if (!whole || !inside.length || level + 1 >= MOST_LEVELS) continue;
    let at = x;
    let run = null;
    const next = [];
    for (const child of inside) {
      const wide = (w * weightOf(column, child)) / whole;
      if (wide >= NARROWEST) next.push({ row: child, x: at, w: wide, level: level + 1 });
      else if (wide > 0) {
        if (run && Math.abs(run.x + run.w - at) < 0.01) {
          run.w += wide;
          run.more += 1;
        } else {
          run = { row: -1, inside: row, x: at, y: (level + 1) * LEVEL, w: wide, h: LEVEL - 1, level: level + 1, more: 1 };
          boxes.push(run);
        }
      }
      at += wide;
    }
    waiting.push(...next.reverse());
  }
  return boxes.filter((box) => box.w >= 0.4);
}
