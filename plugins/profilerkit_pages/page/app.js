// Puts the page together: which sections there are, which model they show, and in which colours.

let views = [];

/** Show a section, where there is something to show in it. */
function part(key, isThere, make) {
  document.getElementById(key).hidden = !isThere;
  if (isThere) views.push(make(...section(key)));
}

function showReport(place) {
  const report = data.reports[place];
  const { operators, memory, roofline } = report;
  const layers = new Rows(report.layers);
  const about = { name: report.name, backend: report.backend, metrics: report.metrics };
  const heading = document.querySelector("#which h2");
  if (heading) heading.textContent = `One model: ${report.name}`;
  chosen.row = layers.rowOf(address.get("layer", null));
  chosen.pathOf = (row) => layers.label(row);
  views = [];
  part("tables", report.tables.length, (body, tools) => new Tables(body, tools, report, layers));
  part("map", layers.sizes.length, (body, tools) => makeMap(body, tools, layers));
  part("timeline", report.timeline, (body) => new Timeline(body, report.timeline, layers));
  const isGraph = operators?.reads && layers.tree.count;
  part("graph", isGraph, (body, tools) => new Graph(body, tools, operators, layers, report.inputs));
  const ofTable = { title: "Layers", tools: (table) => [downloads(about, table)], layerOf: (row) => row };
  part("layers", layers.tree.count, (body, tools) => new Table(body, tools, layers, ofTable));
  if (layers.tree.count) views.push(new LayerFacts(layers));
  part("memory", memory, (body, tools) => new MemoryChart(body, tools, memory, operators, layers));
  const isTimed = roofline.seconds.some((seconds) => asNumber(seconds) > 0);
  part("roofline", isTimed, (body) => new Roofline(body, roofline, layers));
}

/** The map of a model; it has one outermost layer, and says so where there are several. */
function makeMap(body, tools, layers) {
  const map = new ModelMap(body, tools, layers);
  const roots = layers.tree.roots.length;
  if (roots > 1) {
    body.prepend(nothing(`The picture has the first of ${counted(roots, "outermost layer")}; the table has all.`));
  }
  return map;
}

/** Which of the models is looked at by itself. */
const shownModel = () => address.among("model", data.reports.map((_, place) => place));

function showComparison() {
  if (data.reports.length < 2) return;
  if (data.sides.some(Boolean)) new Sides(...section("sides"));
  const which = document.getElementById("which");
  which.hidden = false;
  const chooseModel = (place) => {
    address.set({ model: Number(place) || "", zoom: "", layer: null });
    showReport(Number(place));
    links();
  };
  which.querySelector("[data-tools]").replaceChildren(
    choice("Model", data.reports.map((report, place) => [place, report.name]), shownModel(), chooseModel),
  );
}

chosen.listeners.push((row, from) => {
  address.set({ layer: row < 0 ? "" : chosen.pathOf(row) });
  for (const view of views) if (view !== from || !(view instanceof Table)) view.find(row);
});

function show() {
  showComparison();
  showReport(shownModel());
  if (data.reports.some((report) => report.measurements.length)) new Samples(...section("latency"), data.reports);
  links();
  for (const view of views) if (chosen.row >= 0) view.find(chosen.row);
  address.arrive();
}

address.read();
show();
themes();
address.follow(show);
printing();
