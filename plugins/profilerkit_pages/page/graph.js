// The graph of a model: what runs in a layer, and what reads what. Each box has a picture of its own inside, so that
// opening one moves no other around.

const WHAT_BOXES_READ =
  "What reads what, from the inputs down. A click opens a layer, and closes it; blocks that are alike are one box. The " +
  "stronger the color, the larger the part of the whole.";

class Graph {
  constructor(place, tools, operators, layers, inputs) {
    this.layers = layers;
    this.model = new GraphBoxes(operators, layers, inputs);
    tools.replaceChildren(
      sizeChoice("Colored by", layers.sizes, this.model.column, (size) => this.change(() => this.model.sizeBy(size))),
      el("button", { type: "button", onclick: () => this.change(() => this.model.openAll()) }, "Open all"),
      el("button", { type: "button", onclick: () => this.change(() => this.model.closeAll()) }, "Close all"),
      tick("Fit", false, (isWhole) => this.scroller.classList.toggle("fit", isWhole)),
    );
    this.scroller = el("div", {
      class: "scroll graph",
      onclick: (event) => this.click(event),
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.hover(event),
      onpointerleave: () => tip.hide(),
    });
    place.replaceChildren(el("p", { class: "lead" }, WHAT_BOXES_READ), this.scroller);
    redrawn(this.scroller, () => this.draw());
    this.scroller.scrollLeft = 10 + this.boxes[0].x - this.scroller.clientWidth / 2; // of a wide graph the inputs are in view
  }

  /** Draw again after a change of what there is to see. */
  change(make) {
    make();
    this.draw();
  }

  // Drawing ----------------------------------------------------------------------------------------------------------

  draw() {
    const level = this.model.whole();
    const { w, h } = arrange(level, (box) => this.measure(box));
    this.boxes = [];
    const most = Math.max(...this.model.flat(level).filter((box) => !box.isOpen).map((box) => box.value ?? 0));
    const root = svg("svg", {
      class: "chart",
      width: w + 20,
      height: h + 20,
      viewBox: `0 0 ${w + 20} ${h + 20}`,
      role: "group",
      "aria-label": "Graph of the model",
    });
    root.append(svg("defs", {}, arrowHead()));
    this.put(root, level, 10, 10, most);
    root.dataset.boxes = this.boxes.length;
    this.scroller.replaceChildren(root);
    this.find(chosen.row);
  }

  measure(box) {
    if (!box.label) return [box.ops.length ? 40 : 0, 0];
    const type = box.type ? 8 + textWidth(cut(box.type), 12) : 0;
    const upper = textWidth(cut(box.label), 12, "600") + type + (box.canOpen ? 18 : 0);
    const share = box.share ? 14 + textWidth(box.share, 11.5, "600") : 0;
    const lower = textWidth(cut(box.under ?? ""), 11.5) + share;
    return [Math.max(upper, lower) + 18, lower ? 40 : 24];
  }

  /** Draw the lines and the boxes of a level, and those inside of open ones. */
  put(parent, level, left, top, most) {
    for (const { points, box } of level.lines) {
      parent.append(
        svg("path", { class: "edge", d: pathOf(points, left, top), "marker-end": box.label ? "url(#arrow)" : null }),
      );
    }
    const ends = new Set(level.lines.flatMap(({ source, box }) => [source, box]));
    for (const box of level.boxes) {
      const [x, y] = [left + box.x - box.w / 2, top + box.y];
      if (!box.label && ends.has(box)) parent.append(svg("circle", { class: "port", cx: left + box.x, cy: y, r: 2.5 }));
      if (!box.label) continue;
      const node = this.node(box, x, y, most);
      this.boxes.push({ ...box, node });
      parent.append(node);
      if (box.inner) this.put(parent, box.inner, x + box.inner.left, y + box.inner.top, most);
    }
  }

  /** One box with its texts; the closed one of the `most` value has the strongest colour. */
  node(box, x, y, most) {
    const ofButton = box.canOpen
      ? {
        tabindex: "0",
        role: "button",
        "aria-expanded": String(Boolean(box.isOpen)),
        "aria-label": `${box.label}, ${box.type}`,
      }
      : {};
    const kind = `box ${box.isOpen ? "open" : ""} ${box.row < 0 || !box.ops.length ? "op" : ""}`;
    const frame = svg("rect", { x, y, width: box.w, height: box.h, rx: 5 });
    const title = svg(
      "text",
      { x: x + 9, y: y + 16 },
      svg("tspan", { class: "strong" }, cut(box.label)),
      box.type ? svg("tspan", { dx: 8 }, cut(box.type)) : null,
    );
    const node = svg("g", { class: kind, "data-box": this.boxes.length, ...ofButton }, frame, title);
    if (!box.isOpen) {
      if (box.value > 0) {
        frame.style.fill = `color-mix(in srgb, var(--heat) ${Math.round(6 + (74 * box.value) / most)}%, var(--panel))`;
      }
      node.append(svg("text", { x: x + 9, y: y + 32, class: "small" }, cut(box.under ?? "")));
      node.append(svg("text", { x: x + box.w - 9, y: y + 32, class: "small strong", "text-anchor": "end" }, box.share ?? ""));
    }
    if (box.canOpen) node.append(svg("text", { x: x + box.w - 15, y: y + 16 }, box.isOpen ? "−" : "+"));
    return node;
  }

  // Mouse and keyboard -----------------------------------------------------------------------------------------------

  boxAt(event) {
    return this.boxes[event.target.closest("[data-box]")?.dataset.box];
  }

  click(event) {
    const box = this.boxAt(event);
    if (!box) return;
    if (box.row >= 0) chosen.choose(box.row, this);
    if (box.canOpen) this.toggle(box);
  }

  key(event) {
    if (event.key !== "Enter" && event.key !== " ") return;
    const box = this.boxAt(event);
    if (!box) return;
    event.preventDefault();
    this.click(event);
    this.boxes.find((one) => one.key === box.key)?.node.focus();
  }

  /** Open or close a box, which stays where it is on the screen. */
  toggle(box) {
    const before = box.node.getBoundingClientRect();
    this.model.toggle(box);
    tip.hide();
    this.draw();
    const after = this.boxes.find((one) => one.row === box.row)?.node.getBoundingClientRect();
    if (!after) return;
    this.scroller.scrollTop += after.top - before.top;
    this.scroller.scrollLeft += after.left - before.left;
  }

  hover(event) {
    const box = this.boxAt(event);
    if (!box) return tip.hide();
    const lines = box.row >= 0 && this.model.column ? linesOf(this.layers, box.row, this.model.column) : [box.label];
    if (box.alike) lines[0] = `${lines[0]}, and ${box.alike.length - 1} more like it`;
    return tip.show(lines, event.clientX, event.clientY);
  }

  /** Mark the box of a layer, or the closed one that it is in. */
  find(row) {
    const around = row < 0 ? [] : [row, ...this.layers.tree.around(row)];
    const at = (one) => this.boxes.filter((box) => (box.alike ?? [box.row]).includes(one));
    const marked = new Set(around.map(at).find((boxes) => boxes.length) ?? []);
    for (const box of this.boxes) box.node.classList.toggle("picked", marked.has(box));
  }
}

/** A line from box to box, through the gaps that were left for it. */
function pathOf(points, left, top) {
  const at = points.map(([x, y]) => [(left + x).toFixed(1), top + y]);
  return at.reduce((path, [x, y], place) => {
    if (!place) return `M${x},${y}`;
    const middle = (at[place - 1][1] + y) / 2;
    return at[place - 1][0] === x ? `${path}V${y}` : `${path}C${at[place - 1][0]},${middle} ${x},${middle} ${x},${y}`;
  }, "");
}

/** The head of an arrow, which lines name by its id. */
function arrowHead() {
  const size = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8 };
  const head = svg("path", { d: "M0,0L8,4L0,8Z" });
  return svg("marker", { id: "arrow", ...size, orient: "auto", markerUnits: "userSpaceOnUse" }, head);
}
