// Puts the page together: the sections, the numbers above the table that filter it, and the colours.

function section(key) {
  const node = document.getElementById(key);
  node.hidden = false;
  return [node.querySelector("[data-body]"), node.querySelector("[data-tools]")];
}

function links() {
  const sections = [...document.querySelectorAll("main section[data-title]")].filter((node) => !node.hidden);
  document.querySelector(".sections").replaceChildren(
    ...sections.map((node) =>
      el("a", { href: `#${node.id}`, onclick: (event) => {
        event.preventDefault(); // the address has the state of the page
        node.scrollIntoView();
      } }, node.dataset.title),
    ),
  );
}

function cards() {
  const buttons = [...document.querySelectorAll("button.card")];
  const press = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.status === address.state.status));
  };
  for (const button of buttons) button.addEventListener("click", () => address.set({ status: address.state.status === button.dataset.status ? "" : button.dataset.status }));
  address.listeners.push(press);
  press();
}

/** Light or dark as the system has it, until the button says otherwise; the page stores nothing. */
function themes(apply) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const change = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    apply();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    change();
  });
  system.addEventListener("change", change);
  change();
}

let table;
let scatter;
if (rows.count) {
  table = new AuditTable(...section("models"));
  new OneModel(document.getElementById("one"), ...section("one"));
  if (columns.some((column) => column.metric && column.values.some(isNumber))) scatter = new Scatter(...section("scatter"), table);
  if (Object.keys(data.histories).length && data.metrics.length) new History(...section("history"), table);
  document.getElementById("one").hidden = chosenRow() < 0;
  if (chosenRow() >= 0) table.find(chosenRow());
} else {
  section("models")[0].replaceChildren(nothing("The store has no rows yet."));
}
cards();
links();
themes(() => scatter?.paint());

addEventListener("resize", () => table?.draw());
addEventListener("beforeprint", () => table?.print(true));
addEventListener("afterprint", () => table?.print(false));
addEventListener("scroll", () => tip.hide(), { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
