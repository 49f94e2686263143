// Where each layer lies in the icicle and in the treemap. What is too small to be seen is put together or left out, so
// that the number of boxes depends on the picture, not on the model.

const LEVEL = 26;
const MOST_LEVELS = 14;
const NARROWEST = 1.5;
const SMALLEST = 14;

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
    if (!whole || !inside.length || level + 1 >= MOST_LEVELS) {
      if (inside.length && level + 1 >= MOST_LEVELS) boxes[boxes.length - 1].deeper = true;
      continue;
    }
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

/** The worst ratio of sides in a row of areas along a side; see Bruls, Huizing and van Wijk, Squarified Treemaps. */
function worst(sum, least, most, side) {
  return Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
}

/** Fill a rectangle with one box for each area (sorted, the largest first), as near to squares as can be. */
function squarified(areas, x, y, w, h) {
  const boxes = [];
  let first = 0;
  while (first < areas.length) {
    const side = Math.min(w, h);
    let last = first + 1;
    let sum = areas[first];
    while (last < areas.length && worst(sum + areas[last], areas[last], areas[first], side) <= worst(sum, areas[last - 1], areas[first], side)) {
      sum += areas[last];
      last += 1;
    }
    const thick = side > 0 ? sum / side : 0;
    let at = 0;
    for (let place = first; place < last; place += 1) {
      const long = thick > 0 ? areas[place] / thick : 0;
      boxes.push(w >= h ? { x, y: y + at, w: thick, h: long } : { x: x + at, y, w: long, h: thick });
      at += long;
    }
    if (w >= h) [x, w] = [x + thick, Math.max(0, w - thick)];
    else [y, h] = [y + thick, Math.max(0, h - thick)];
    first = last;
  }
  return boxes;
}

/** Boxes in boxes, as large as their share; a layer with others inside has a line for its name where there is room. */
function treemap(layers, column, root, width, height) {
  const boxes = [];
  const waiting = [{ row: root, x: 0, y: 0, w: width, h: height, level: 0 }];
  while (waiting.length) {
    const box = waiting.pop();
    boxes.push(box);
    const inside = layers.tree.children[box.row].filter((child) => weightOf(column, child) > 0);
    const whole = extent(layers, column, box.row);
    const named = box.w > 46 && box.h > 34;
    const [margin, top] = named ? [2, 17] : [1, 1];
    const [w, h] = [box.w - 2 * margin, box.h - top - margin];
    if (!whole || !inside.length || w * h < SMALLEST || w < 2 || h < 2) continue;
    box.head = named;
    const sizes = inside.map((child) => [child, (w * h * weightOf(column, child)) / whole]).sort((one, two) => two[1] - one[1]);
    const seen = sizes.filter(([, area]) => area >= SMALLEST / 2);
    const places = squarified(seen.map(([, area]) => area), box.x + margin, box.y + top, w, h);
    seen.forEach(([child], place) => waiting.push({ row: child, ...places[place], level: box.level + 1 }));
    box.more = inside.length - seen.length;
  }
  return boxes;
}
