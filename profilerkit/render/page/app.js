// Puts the page together: which sections there are, which model they show, and in which colours.

const data = JSON.parse(document.getElementById("data").textContent);

/** The body and the tools of a section, which is shown from now on. */
function section(key) {
  const node = document.getElementById(key);
  node.hidden = false;
  return [node.querySelector("[data-body]"), node.querySelector("[data-tools]")];
}

let views = [];
let redrawMap = () => {};

function showLayers(layers) {
  const [body, tools] = section("layers");
  if (!layers.tree.count) {
    tools.replaceChildren();
    document.getElementById("map").hidden = true;
    body.replaceChildren(nothing("No layers: the model was not traced."));
    return;
  }
  const table = new TreeTable(body, tools, layers, { caption: "Layers", linked: true, onChoose: (row) => chosen.choose(row, table) });
  views.push(table);
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
  redrawMap = () => map.layOut();
}

function showReport(place) {
  const report = data.reports[place];
  const layers = new Layers(report.layers);
  chosen.row = -1;
  views = [];
  redrawMap = () => {};
  showLayers(layers);
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

function showComparison() {
  if (data.reports.length < 2) return;
  new Sides(...section("sides"), data);
  const which = document.getElementById("which");
  which.hidden = false;
  which.querySelector("[data-tools]").append(choice("Model", data.reports.map((report, place) => [place, report.name]), 0, (place) => showReport(Number(place))));
}

function links() {
  const sections = [...document.querySelectorAll("main section[data-title]")].filter((node) => !node.hidden);
  document.querySelector(".sections").replaceChildren(...sections.map((node) => el("a", { href: `#${node.id}` }, node.dataset.title)));
}

/** Light or dark as the system has it, until the button says otherwise; the page stores nothing. */
function themes() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const apply = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    for (const view of views) if (view instanceof ModelMap) view.draw();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

chosen.listeners.push((row, from) => {
  for (const view of views) if (view !== from || !(view instanceof TreeTable)) view.find(row);
});

showComparison();
showReport(0);
showSamples();
links();
themes();

let across = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== across) redrawMap();
  across = innerWidth;
  for (const table of TreeTable.all) table.draw();
});
addEventListener("beforeprint", () => {
  for (const table of TreeTable.all) table.draw(true);
});
addEventListener("afterprint", () => {
  for (const table of TreeTable.all) table.draw();
});
addEventListener("scroll", () => tip.hide(), { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
