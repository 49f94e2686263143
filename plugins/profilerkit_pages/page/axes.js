// What the charts share: a drawing of a width, ticks at round numbers, and scales.

const MARGIN = { left: 84, right: 14, top: 14, bottom: 30 };
const LONGEST_TICK = 12;
const WORTH_A_LOGARITHM = 30;

/** Round numbers between two bounds; in powers of two for bytes, since that is how they are written. */
function ticksOf(low, high, count, scale) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const base = scale === "iec" ? 2 : 10;
  const rough = span / count;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const step = power * ((base === 2 ? [1, 2] : [1, 2, 5, 10]).find((times) => power * times >= rough * 0.999) ?? 10);
  const ticks = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-9) && ticks.length < 24; at += 1) ticks.push(at * step);
  return ticks;
}

/**
 * Powers of a base between two bounds, at most about eight; of ten also twice and five times one, where there are fewer
 * than two.
 */
function powers(low, high, base) {
  const [first, last] = [
    Math.ceil(Math.log(low) / Math.log(base) - 1e-9),
    Math.floor(Math.log(high) / Math.log(base) + 1e-9),
  ];
  const step = Math.max(1, Math.ceil((last - first + 1) / 8));
  const ticks = [];
  for (let power = first; power <= last; power += step) ticks.push(base ** power);
  if (ticks.length > 1 || base !== 10) return ticks;
  const tens = [first - 1, first].map((power) => 10 ** power);
  return tens.flatMap((ten) => [ten, 2 * ten, 5 * ten]).filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => {
  const line = linear(Math.log10(low), Math.log10(high), from, to);
  return (value) => line(Math.log10(value));
};

/** An axis for values of a column: logarithmic where it says so, or where they span far and are above zero. */
function axisOf(values, from, to, { title, unit, scale, isLogarithmic }) {
  const [low, high] = values.reduce(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
    [Infinity, -Infinity],
  );
  const labelled = (at, ticks) => ({ title, at, ticks, text: writerOf(ticks, unit, scale) });
  const isWide = low > 0 && high / low > WORTH_A_LOGARITHM;
  if (isWide || isLogarithmic) {
    const room = 10 ** (isWide ? 0.15 : 0.35);
    const [first, last] = [low / room, high * room];
    return labelled(logarithmic(first, last, from, to), powers(first, last, scale === "iec" ? 2 : 10));
  }
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  const [first, last] = [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
  return labelled(linear(first, last, from, to), ticksOf(first, last, 6, scale));
}

/** An axis on the left: where its texts would be longer than the margin, the title has the unit instead. */
function leftAxisOf(values, from, to, column) {
  const axis = axisOf(values, from, to, column);
  if (!column.unit || axis.ticks.every((tick) => axis.text(tick).length <= LONGEST_TICK)) return axis;
  const scale = column.scale === "none" ? "si" : column.scale;
  return {
    ...axis,
    text: writerOf(axis.ticks, "", scale),
    title: axis.title === column.unit ? axis.title : `${axis.title} in ${column.unit}`,
  };
}

/** A drawing with a frame of ticks. `x` and `y` have: ticks, at (a scale), text, and a title where that is not clear. */
function chart(width, height, label, x, y) {
  const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
  const root = svg("svg", {
    class: "chart",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
  });
  const grid = svg("g", { class: "axis", "aria-hidden": "true" });
  for (const tick of y.ticks) {
    grid.append(svg("line", { x1: MARGIN.left, x2: right, y1: y.at(tick), y2: y.at(tick) }));
    grid.append(svg(
      "text",
      { x: MARGIN.left - 7, y: y.at(tick), "text-anchor": "end", "dominant-baseline": "central" },
      y.text(tick),
    ));
  }
  let free = -Infinity;
  for (const tick of x.ticks) {
    grid.append(svg("line", { x1: x.at(tick), x2: x.at(tick), y1: bottom, y2: bottom + 4 }));
    const text = x.text(tick);
    const half = textWidth(text, 11.5) / 2;
    const middle = Math.min(x.at(tick), width - half); // the last one stays inside of the drawing
    if (middle - half < free || x.at(tick) > width) continue;
    free = middle + half + 6;
    grid.append(svg("text", { x: middle, y: bottom + 16, "text-anchor": "middle" }, text));
  }
  if (y.title) grid.append(svg("text", { class: "axis-name", x: MARGIN.left + 4, y: MARGIN.top }, y.title));
  if (x.title) grid.append(svg("text", { class: "axis-name", x: right, y: bottom - 6, "text-anchor": "end" }, x.title));
  root.append(grid);
  return root;
}

/** A sentence in place of a chart that there is nothing to draw for. */
const nothing = (why) => el("p", { class: "empty" }, why);

/** Draw again whenever the place gets another width. */
function redrawn(place, draw) {
  let width = 0;
  const look = () => {
    if (!place.clientWidth || place.clientWidth === width) return;
    width = place.clientWidth;
    draw(width);
  };
  look();
  const observer = new ResizeObserver(() => requestAnimationFrame(look));
  observer.observe(place);
  return () => {
    width = 0;
    look();
  };
}
