// Dots of two values each, on axes that fit them: under the pointer they say what they are, and a click chooses one.

/** How far from a dot the pointer may be, in pixels. */
const NEAR = 14;

class Points {
  /** `lines(point)` is what there is to say of one; a click chooses its row for `view`. */
  constructor(lines, view) {
    const choose = (point) => point && chosen.choose(point.row, view);
    this.points = [];
    this.lines = lines;
    this.place = el("div", { class: "plot dots", onpointermove: (event) => this.hover(event), onpointerleave: () => tip.hide(), onclick: (event) => choose(this.nearest(event)) });
  }

  /** Draw points, those behind first; each has `row`, `x`, `y`, `radius` and `kind`. The columns are those of the axes. */
  draw(points, across, up, height) {
    const width = this.place.clientWidth;
    const x = axisOf(points.map((point) => point.x), MARGIN.left + 8, width - MARGIN.right, across);
    const y = leftAxisOf(points.map((point) => point.y), height - MARGIN.bottom - 8, MARGIN.top + 14, up);
    this.points = points;
    for (const point of points) {
      Object.assign(point, { across: x.at(point.x), up: y.at(point.y) });
      point.node = svg("circle", { class: `dot ${point.kind}`, cx: point.across.toFixed(1), cy: point.up.toFixed(1), r: point.radius.toFixed(1) });
    }
    this.dots = svg("g", {}, ...points.map((point) => point.node));
    this.root = chart(width, height, `${up.title} against ${across.title}`, x, y);
    this.root.append(this.dots);
    this.place.replaceChildren(this.root);
    this.mark(chosen.row);
  }

  /** Mark the dot of a row, above all others. */
  mark(row) {
    for (const { node } of this.points) node.classList.remove("picked");
    const node = this.points.find((point) => point.row === row)?.node;
    if (!node) return;
    node.classList.add("picked");
    this.dots.append(node);
  }

  nearest(event) {
    const { left, top } = this.place.getBoundingClientRect();
    const distance = (point) => Math.hypot(point.across - event.clientX + left, point.up - event.clientY + top);
    return this.points.reduce(([best, least], point) => (distance(point) < least ? [point, distance(point)] : [best, least]), [null, NEAR])[0];
  }

  hover(event) {
    const point = this.nearest(event);
    return point ? tip.show(this.lines(point), event.clientX, event.clientY) : tip.hide();
  }
}
