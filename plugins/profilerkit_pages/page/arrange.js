// Where the boxes of a graph lie: each below all that it reads, beside others of its rank; lines that pass ranks have a
// bend in each of them. After Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures.
//
// A box comes with its `sources`, the boxes that it reads, and gets from each step what the next one needs: its size `w`
// and `h`, its `rank`, its `bends`, what is `above` and `below` it, its `place` in the rank, its middle `x`, and its `y`
// from the top. A bend is like a box without sources.

/** The gaps between boxes beside and below each other, and the frame and the header around what is inside a box. */
const [ASIDE, BELOW, FRAME, HEADER] = [18, 20, 14, 26];
const MOST_BENDS = 4000;
const SWEEPS = 6;

/** Give the boxes of a level, and those inside of open ones, their places; return how large all of it is. */
function arrange(level, measure) {
  const { boxes } = level;
  for (const box of boxes) {
    [box.w, box.h] = measure(box);
    if (box.inner) enclose(box, arrange(box.inner, measure));
  }
  rank(boxes);
  const all = [...boxes, ...bendsOf(boxes)];
  const ranks = [];
  for (const one of all) (ranks[one.rank] ??= []).push(one);
  connect(boxes);
  untangle(ranks);
  straighten(ranks);
  const h = stack(ranks);
  const left = Math.min(...all.map((one) => one.x - one.w / 2));
  for (const one of all) one.x -= left;
  level.lines = boxes.flatMap((box) => [...box.sources].map((source) => ({ source, box, points: lineOf(source, box) })));
  return { w: Math.max(...all.map((one) => one.x + one.w / 2)), h };
}

/** Make a box as large as what is inside of it, with a frame and a header. */
function enclose(box, inner) {
  const width = Math.max(inner.w + 2 * FRAME, box.w);
  Object.assign(box.inner, { left: (width - inner.w) / 2, top: HEADER });
  [box.w, box.h] = [width, inner.h + HEADER + FRAME];
}

// Ranks ---------------------------------------------------------------------------------------------------------------

/** Give each box a rank below those of all that it reads; one that reads nothing stands right above what reads it. */
function rank(boxes) {
  const readers = new Map(boxes.map((box) => [box, []]));
  for (const box of boxes) for (const source of box.sources) readers.get(source).push(box);
  const left = new Map(boxes.map((box) => [box, box.sources.size])); // how many of its sources have no rank yet
  const ranked = boxes.filter((box) => !box.sources.size);
  for (const box of ranked) box.rank = 0;
  for (const box of ranked) { // boxes are added on the way
    for (const reader of readers.get(box)) {
      reader.rank = Math.max(reader.rank ?? 0, box.rank + 1);
      left.set(reader, left.get(reader) - 1);
      if (!left.get(reader)) ranked.push(reader);
    }
  }
  for (const box of boxes) {
    const first = Math.min(...readers.get(box).map((reader) => reader.rank));
    if (box.key === "exit") box.rank = Math.max(...boxes.map((one) => one.rank));
    else if (box.key !== "entry" && !box.sources.size && first < Infinity) box.rank = Math.max(0, first - 1);
  }
}

/** Where lines pass ranks: one bend in each rank for all lines of a box. */
function bendsOf(boxes) {
  const bends = [];
  for (const box of boxes) box.bends = [];
  for (const box of boxes) {
    for (const source of box.sources) {
      for (let at = source.rank + 1; at < box.rank && bends.length < MOST_BENDS; at += 1) {
        if (source.bends[at]) continue;
        source.bends[at] = { rank: at, w: 8, h: 0 };
        bends.push(source.bends[at]);
      }
    }
  }
  return bends;
}

/** Tell boxes and bends what is next to them in the rank above and in that below. */
function connect(boxes) {
  for (const box of boxes) {
    for (const one of [box, ...box.bends.filter(Boolean)]) Object.assign(one, { above: new Set(), below: new Set() });
  }
  for (const box of boxes) {
    for (const source of box.sources) {
      let upper = source;
      for (let at = source.rank + 1; at <= box.rank; at += 1) {
        const lower = at === box.rank ? box : source.bends[at];
        if (!lower) continue;
        lower.above.add(upper);
        upper.below.add(lower);
        upper = lower;
      }
    }
  }
}

// Places in ranks -----------------------------------------------------------------------------------------------------

const mean = (ones, value) => [...ones].reduce((sum, one) => sum + one[value], 0) / ones.size;

/** Visit the ranks from above and from below in turn; `visit` gets a rank and the side that was visited before. */
function sweep(ranks, times, visit) {
  for (let time = 0; time < times; time += 1) {
    const [side, order] = time % 2 ? ["below", [...ranks].reverse()] : ["above", ranks];
    for (const inRank of order) visit(inRank, side);
  }
}

/** Order the ranks so that few lines cross: each box near the middle of what is next to it. */
function untangle(ranks) {
  const number = (inRank) => inRank.forEach((one, index) => (one.place = index - inRank.length / 2));
  ranks.forEach(number);
  sweep(ranks, SWEEPS, (inRank, side) => {
    for (const one of inRank) one.wanted = one[side].size ? mean(one[side], "place") : one.place;
    inRank.sort((one, two) => one.wanted - two.wanted);
    number(inRank);
  });
}

/** Move boxes below and above each other as far as those beside them let them. */
function straighten(ranks) {
  for (const inRank of ranks) {
    let x = 0;
    inRank.forEach((one, index) => (one.x = x += index ? apart(inRank[index - 1], one) : 0));
    for (const one of inRank) one.x -= x / 2;
  }
  sweep(ranks, 2 * SWEEPS, (inRank, side) => {
    for (const one of inRank) one.wanted = one[side].size ? mean(one[side], "x") : one.x;
    spread(inRank);
  });
}

/** How far apart the middles of two boxes beside each other are. */
const apart = (one, two) => (one.w + two.w) / 2 + ASIDE;

/** Place the boxes of a rank near where they are wanted: in the middle of what pushing right and pushing left make. */
function spread(inRank) {
  const right = inRank.map((one) => one.wanted);
  const left = [...right];
  for (let index = 1; index < right.length; index += 1) {
    right[index] = Math.max(right[index], right[index - 1] + apart(inRank[index - 1], inRank[index]));
  }
  for (let index = left.length - 2; index >= 0; index -= 1) {
    left[index] = Math.min(left[index], left[index + 1] - apart(inRank[index], inRank[index + 1]));
  }
  inRank.forEach((one, index) => (one.x = (right[index] + left[index]) / 2));
}

/** Put the ranks below each other, and return how high all of them are. */
function stack(ranks) {
  let y = 0;
  for (const inRank of ranks) {
    const height = Math.max(...inRank.map((one) => one.h));
    for (const one of inRank) Object.assign(one, { y: y + (height - one.h) / 2, top: y, bottom: y + height });
    y += height + BELOW;
  }
  return Math.max(0, y - BELOW);
}

/** The points of the line from a box to one that reads it. */
function lineOf(source, box) {
  const points = [[source.x, source.y + source.h]];
  for (let at = source.rank + 1; at < box.rank; at += 1) {
    const bend = source.bends[at];
    if (bend) points.push([bend.x, bend.top], [bend.x, bend.bottom]);
  }
  return [...points, [box.x, box.y]];
}
