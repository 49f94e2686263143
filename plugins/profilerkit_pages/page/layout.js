// Where each layer lies in the map. What is too small to be seen is put together, so that the number of boxes depends on
// the picture, not on the model.

const LEVEL = 26;
const MOST_LEVELS = 14;
const NARROWEST = 2.5;

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
    const box = waiting.pop();
    boxes.push(box);
    if (box.row >= 0 && box.level + 1 < MOST_LEVELS) waiting.push(...boxesInside(layers, column, box).reverse());
  }
  return boxes.filter((box) => box.w >= 0.4);
}

function boxesInside(layers, column, box) {
  const whole = extent(layers, column, box.row);
  const level = box.level + 1;
  const boxes = [];
  let x = box.x;
  for (const row of whole ? layers.tree.children[box.row] : []) {
    const w = (box.w * weightOf(column, row)) / whole;
    const before = boxes.at(-1);
    if (w >= NARROWEST) boxes.push({ row, x, w, level });
    else if (w > 0 && before?.row === -1) Object.assign(before, { w: before.w + w, more: before.more + 1 });
    else if (w > 0) boxes.push({ row: -1, inside: box.row, x, w, level, more: 1 });
    x += w;
  }
  return boxes;
}
