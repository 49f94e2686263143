// Puts the page together: the sections, and the numbers above the table that filter it.

function cards() {
  const buttons = [...document.querySelectorAll("button.card")];
  const press = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.status === address.state.status));
  };
  for (const button of buttons) button.addEventListener("click", () => address.set({ status: address.state.status === button.dataset.status ? "" : button.dataset.status }));
  address.listeners.push(press);
  press();
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
sectionLinks();
themes(() => scatter?.paint());

addEventListener("resize", () => table?.draw());
for (const [event, isNear] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => {
    paper.isNear = isNear;
    table?.heads();
    table?.draw();
  });
}
