// The bytes alive after each operator, the weights as a band below them, and the peak.

/** Weights of a larger part of the peak would hide all that goes up and down above them. */
const MOST_WEIGHTS = 2 / 3;
const AREAS = [
  ["area-live", "inputs and activations"],
  ["area-weights", "weights"],
  ["area-chosen", "operators of the chosen layer"],
];

const bytesText = (count) => quantity(count, "B", "iec");

class MemoryChart {
  constructor(place, tools, memory, operators, layers) {
    Object.assign(this, { memory, layers, at: -1 });
    this.live = unpacked(memory.live);
    this.operators = unpacked(operators.names);
    this.rows = unpacked(operators.layers);
    this.phases = unpacked(operators.phases);
    this.cursor = memory.peak;
    const withThem = address.among("weights", [true, false], memory.weights < MOST_WEIGHTS * this.peakBytes());
    this.band = withThem ? memory.weights : 0;
    this.left = el("p", { class: "left-out" });
    this.plot = el("div", {
      class: "plot",
      tabindex: "0",
      role: "group",
      "aria-label": "Memory timeline: left and right arrow keys move between operators, Home goes to the peak",
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.hover(event),
      onpointerleave: () => this.point(-1),
      onclick: () => this.pick(),
    });
    this.said = el("p", { class: "said", role: "status" });
    place.replaceChildren(
      el("p", { class: "lead" }, this.sentence()),
      this.left,
      this.plot,
      this.said,
      legend(AREAS),
      ...this.remarks(),
    );
    const redraw = redrawn(this.plot, (width) => this.draw(width));
    const weights = tick("With the weights", withThem, (on) => {
      this.band = on ? memory.weights : 0;
      address.set({ weights: on });
      redraw();
    });
    tools.replaceChildren(...(memory.weights ? [weights] : []));
  }

  peakBytes() {
    const { peak, input, weights } = this.memory;
    return (peak < 0 ? input : this.live[peak]) + weights;
  }

  ordinal(place) {
    return `operator ${grouped(place + 1)} of ${grouped(this.live.length)}`;
  }

  where(place) {
    const row = this.rows[place] ?? -1;
    const operator = this.operators[place];
    const inside = row < 0 ? "" : `in ${this.layers.label(row)}`;
    return operator === undefined ? `operator ${place + 1}` : `${operator} ${inside}`.trimEnd();
  }

  sentence() {
    const bytes = `${this.memory.sign}${bytesText(this.peakBytes())}`;
    const at = this.memory.peak < 0
      ? "before the first operator"
      : `after ${this.ordinal(this.memory.peak)}: ${this.where(this.memory.peak)}`;
    const told = Object.entries(this.memory.parts);
    const rest = told.length ? told : [["inputs and activations", this.peakBytes() - this.memory.weights]];
    const parts = [["weights", this.memory.weights], ...rest];
    const texts = parts.map(([name, count]) => `${name} ${bytesText(count)}`);
    return `Most is alive ${at}. It is ${bytes}: ${texts.join(", ")}.`;
  }

  remarks() {
    const { note, missing } = this.memory;
    const lines = [note, missing.length ? `Lower bounds; not counted: ${missing.join(", ")}` : ""].filter(Boolean);
    return lines.length ? [el("ul", { class: "notes" }, ...lines.map((line) => el("li", {}, line)))] : [];
  }

  /** For each pixel the most that is alive there, so that no peak is lost however many operators there are. */
  steps() {
    const columns = Math.min(this.live.length, Math.max(1, Math.floor(this.right - MARGIN.left)));
    const steps = [];
    for (let column = 0; column < columns; column += 1) {
      const [from, to] = [
        Math.floor((column * this.live.length) / columns),
        Math.floor(((column + 1) * this.live.length) / columns),
      ];
      let most = 0;
      for (let place = from; place < to; place += 1) most = Math.max(most, this.live[place]);
      steps.push([from, to, most]);
    }
    return steps;
  }

  draw(width) {
    const height = 260;
    const { band } = this;
    const most = this.peakBytes() - this.memory.weights + band;
    const top = Math.max(most, 1) * 1.12;
    const weights = bytesText(this.memory.weights);
    const leftOut = `The picture leaves out the weights, ${weights}, which are alive throughout.`;
    this.left.textContent = band || !this.memory.weights ? "" : leftOut;
    this.right = width - MARGIN.right;
    this.x = linear(0, this.live.length, MARGIN.left, this.right);
    this.y = linear(0, top, height - MARGIN.bottom, MARGIN.top);
    const ofOperators = {
      ticks: ticksOf(0, this.live.length, Math.max(3, width / 120), "none").filter(Number.isInteger),
      at: this.x,
      text: (tick) => (tick ? grouped(tick) : "operator 0"),
    };
    const ofBytes = { ticks: ticksOf(0, top, 5, "iec"), at: this.y, text: (tick) => bytesText(tick) };
    const root = chart(width, height, this.sentence(), ofOperators, ofBytes);
    const ground = this.y(0);
    this.marked = svg("g");
    this.pointer = svg("line", { class: "pointer", y1: MARGIN.top, y2: ground, visibility: "hidden" });
    root.append(svg("path", { class: "area-live", d: this.outline(ground) }));
    root.append(
      svg("rect", {
        class: "area-weights",
        x: this.x(0),
        y: this.y(band),
        width: this.right - MARGIN.left,
        height: Math.max(0, ground - this.y(band)),
      }),
      this.marked,
    );
    this.phase(root);
    if (this.memory.peak >= 0) this.drawPeak(root, this.memory.peak, most, width);
    root.append(this.pointer);
    this.plot.replaceChildren(root);
    this.find(chosen.row);
  }

  /** The line around what is alive, from the inputs on. */
  outline(ground) {
    let line = `M${this.x(0)},${ground}V${this.y(this.band + this.memory.input).toFixed(1)}`;
    for (const [from, to, alive] of this.steps()) {
      line += `${from ? "" : `H${this.x(0)}`}V${this.y(alive + this.band).toFixed(1)}H${this.x(to).toFixed(1)}`;
    }
    return `${line}V${ground}Z`;
  }

  drawPeak(root, peak, most, width) {
    const [x, y] = [this.x(peak + 0.5), this.y(most)];
    const end = x > width * 0.6;
    root.append(
      svg("circle", { class: "peak", cx: x, cy: y, r: 4 }),
      svg(
        "text",
        { class: "peak-name", x: end ? x - 8 : x + 8, y: y - 7, "text-anchor": end ? "end" : "start" },
        `peak ${this.memory.sign}${bytesText(most)}`,
      ),
    );
  }

  phase(root) {
    const first = this.phases.indexOf("backward");
    if (first < 0) return;
    const x = this.x(first);
    root.append(
      svg("line", { class: "phase", x1: x, x2: x, y1: MARGIN.top, y2: this.y(0) }),
      svg("text", { class: "phase-name", x: x + 5, y: MARGIN.top + 10 }, "backward"),
    );
  }

  hover(event) {
    const { left } = this.plot.getBoundingClientRect();
    const place = Math.floor(((event.clientX - left - MARGIN.left) / (this.right - MARGIN.left)) * this.live.length);
    this.point(place >= 0 && place < this.live.length ? place : -1, event.clientX, event.clientY);
  }

  lines(place) {
    return [
      this.where(place),
      `${bytesText(this.live[place] + this.memory.weights)} alive, ${bytesText(this.live[place])} without weights`,
      this.ordinal(place),
    ];
  }

  point(place, x, y) {
    this.at = place;
    if (place < 0) {
      this.pointer?.setAttribute("visibility", "hidden");
      return tip.hide();
    }
    for (const name of ["x1", "x2"]) this.pointer.setAttribute(name, this.x(place + 0.5));
    this.pointer.setAttribute("visibility", "visible");
    return x === undefined ? null : tip.show(this.lines(place), x, y);
  }

  pick() {
    if (this.at >= 0 && (this.rows[this.at] ?? -1) >= 0) chosen.choose(this.rows[this.at], this);
  }

  key(event) {
    const steps = {
      ArrowLeft: this.cursor - 1,
      ArrowRight: this.cursor + 1,
      PageUp: this.cursor - 20,
      PageDown: this.cursor + 20,
      Home: this.memory.peak,
      End: this.live.length - 1,
    };
    if (event.key in steps) {
      this.cursor = Math.max(0, Math.min(this.live.length - 1, steps[event.key]));
      this.point(this.cursor);
      this.said.textContent = this.lines(this.cursor).join(", ");
    } else if (event.key === "Enter") this.pick();
    else return;
    event.preventDefault();
  }

  /** Mark the operators of a layer and of those inside it. */
  find(row) {
    if (!this.marked) return;
    this.marked.replaceChildren();
    if (row < 0 || this.layers.tree.parents[row] < 0) return;
    const wanted = new Set(this.layers.tree.within(row));
    let from = -1;
    for (let place = 0; place <= this.live.length; place += 1) {
      const is = wanted.has(this.rows[place]);
      if (is && from < 0) from = place;
      if (!is && from >= 0) {
        this.marked.append(svg("rect", {
          class: "area-chosen",
          x: this.x(from),
          y: MARGIN.top,
          width: Math.max(1, this.x(place) - this.x(from)),
          height: this.y(0) - MARGIN.top,
        }));
        from = -1;
      }
    }
  }
}
