// Puts the page together: which sections there are, which model they show, and in which colours.

let views = [];

function showLayers(layers, report) {
  const [body, tools] = section("layers");
  if (!layers.tree.count) {
    tools.replaceChildren();
    for (const key of ["map", "slowest"]) document.getElementById(key).hidden = true;
    body.replaceChildren(nothing("No layers: the model was not traced."));
    return;
  }
  const table = new TreeTable(body, tools, layers, { caption: "Layers", about: { name: report.name, backend: report.backend, metrics: report.metrics }, prefix: "", linked: true, onChoose: (row) => chosen.choose(row, table) });
  views.push(table, new LayerFacts(body, layers), new Slowest(...section("slowest"), layers));
  showMap(layers);
}

function showMap(layers) {
  const [body, tools] = section("map");
  if (!layers.sizes.length) {
    tools.replaceChildren();
    body.replaceChildren(nothing("No layer has parameters, work or time that a picture could show."));
    return;
  }
  const map = new ModelMap(body, tools, layers);
  if (layers.tree.roots.length > 1) body.prepend(nothing(`The picture has the first of ${counted(layers.tree.roots.length, "outermost layer")}; the table has all.`));
  views.push(map);
}

function showReport(place) {
  const report = data.reports[place];
  const layers = new Layers(report.layers);
  const heading = document.querySelector("#which h2");
  if (heading) heading.textContent = `One model: ${report.name}`;
  chosen.layers = layers;
  chosen.row = layers.rowOf(address.get("layer", null));
  views = [];
  showLayers(layers, report);
  const [memory, tools] = section("memory");
  tools.replaceChildren();
  if (report.memory) views.push(new MemoryChart(memory, tools, report.memory, layers));
  else memory.replaceChildren(nothing("No memory timeline: the model was not run while it was traced."));
  const [roofline] = section("roofline");
  if (report.roofline.layers.length) views.push(new Roofline(roofline, report.roofline, layers));
  else roofline.replaceChildren(nothing("No layer is known to do FLOPs and to move bytes, so there is no intensity to show."));
}

function showSamples() {
  const [body, tools] = section("latency");
  if (data.reports.some((report) => report.measurements.length)) new Samples(body, tools, data.reports);
  else body.replaceChildren(nothing("Nothing was measured: there are no samples."));
}

/** Which of the models is looked at by itself. */
const shownModel = () => address.among("model", data.reports.map((_, place) => place));

function showComparison() {
  if (data.reports.length < 2) return;
  new Sides(...section("sides"), data);
  const which = document.getElementById("which");
  which.hidden = false;
  const chooseModel = (place) => {
    address.set({ model: Number(place) || "", zoom: "", layer: null });
    showReport(Number(place));
  };
  which.querySelector("[data-tools]").replaceChildren(choice("Model", data.reports.map((report, place) => [place, report.name]), shownModel(), chooseModel));
}

chosen.listeners.push((row, from) => {
  address.set({ layer: null });
  if (row >= 0) address.set({ layer: chosen.layers.path(row) || ROOT });
  for (const view of views) if (view !== from || !(view instanceof TreeTable)) view.find(row);
});

function show() {
  showComparison();
  showReport(shownModel());
  showSamples();
  for (const view of views) if (chosen.row >= 0) view.find(chosen.row);
  address.arrive();
}

address.read();
show();
links();
themes(() => ModelMap.all.forEach((map) => map.draw()));
address.follow(show);

let across = innerWidth;
addEventListener("resize", () => {
  const isWider = innerWidth !== across;
  across = innerWidth;
  if (isWider) for (const map of ModelMap.all) map.layOut();
  for (const table of TreeTable.all) {
    if (isWider) table.heads();
    table.draw();
  }
});
/** Paper is light, has the rows that would be scrolled to, and all that is behind something to press. */
let themeBefore;
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not(.menu):not([open])")];
  for (const details of closed) details.open = true;
  themeBefore = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  paper.isNear = true;
  for (const table of TreeTable.all) table.draw();
  for (const map of ModelMap.all) map.draw();
});
addEventListener("afterprint", () => {
  paper.isNear = false;
  if (themeBefore) document.documentElement.dataset.theme = themeBefore;
  else delete document.documentElement.dataset.theme;
  for (const details of closed) details.open = false;
  for (const table of TreeTable.all) table.draw();
  for (const map of ModelMap.all) map.draw();
});
