// Dots of two values each, on axes that fit them: under the pointer they say what they are, and a click chooses one.

/** How far from a dot the pointer may be, in pixels. */
const NEAR = 14;

/** A circle as two half ones. */
function circlePath({ across, up, radius }) {
  const half = (width) => `a${radius},${radius} 0 1 0 ${width},0`;
  return `M${(across - radius).toFixed(1)},${up.toFixed(1)}${half(2 * radius)}${half(-2 * radius)}`;
}

class Points {
  /** `lines(point)` is what there is to say of one; a click chooses its row for `view`. */
  constructor(lines, view) {
    const choose = (point) => point && chosen.choose(point.row, view);
    this.points = [];
    this.lines = lines;
    this.place = el("div", {
      class: "plot dots",
      onpointermove: (event) => this.hover(event),
      onpointerleave: () => tip.hide(),
      onclick: (event) => choose(this.nearest(event)),
    });
  }

  /** Draw points, those behind first; each has `row`, `x`, `y`, `radius` and `kind`. The columns are those of the axes. */
  draw(points, across, up, height) {
    const width = this.place.clientWidth;
    const x = axisOf(points.map((point) => point.x), MARGIN.left + 8, width - MARGIN.right, across);
    const y = leftAxisOf(points.map((point) => point.y), height - MARGIN.bottom - 8, MARGIN.top + 14, up);
    this.points = points;
    const kinds = new Map(); // those of a kind are one path: ten thousand elements would take half a second
    for (const point of points) {
      Object.assign(point, { across: x.at(point.x), up: y.at(point.y) });
      kinds.set(point.kind, (kinds.get(point.kind) ?? "") + circlePath(point));
    }
    this.dots = svg("g", {}, ...[...kinds].map(([kind, d]) => svg("path", { class: `dot ${kind}`, d })));
    this.root = chart(width, height, `${up.title} against ${across.title}`, x, y);
    this.root.append(this.dots);
    this.place.replaceChildren(this.root);
    this.mark(chosen.row);
  }

  /** Mark the dot of a row, above all others. */
  mark(row) {
    this.picked?.remove();
    const point = this.points.find((one) => one.row === row);
    if (!point) return;
    this.picked = svg("path", { class: `dot ${point.kind} picked`, d: circlePath(point) });
    this.dots.append(this.picked);
  }

  nearest(event) {
    const { left, top } = this.place.getBoundingClientRect();
    const distance = (point) => Math.hypot(point.across - event.clientX + left, point.up - event.clientY + top);
    return this.points.reduce(
      ([best, least], point) => (distance(point) < least ? [point, distance(point)] : [best, least]),
      [null, NEAR],
    )[0];
  }

  hover(event) {
    const point = this.nearest(event);
    return point ? tip.show(this.lines(point), event.clientX, event.clientY) : tip.hide();
  }
}
