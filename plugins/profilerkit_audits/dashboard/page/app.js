// Puts the page together: the sections, and the numbers above the table that filter it.

function cards() {
  const buttons = [...document.querySelectorAll("button.card")];
  const press = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.status === address.get("status")));
  };
  for (const button of buttons) button.onclick = () => address.set({ status: address.get("status") === button.dataset.status ? "" : button.dataset.status });
  address.listeners.push(press);
  press();
}

/** Whether a row is of the status that is pressed. */
function isAsked(row) {
  const status = address.get("status");
  return !status || (status === "flagged" ? texts.flags[row] !== "" : texts.status[row] === status);
}

function show() {
  address.listeners.length = chosen.listeners.length = 0;
  chosen.row = placeOfId.get(address.get("model")) ?? -1;
  const table = new Table(...section("models"), models, {
    title: "Models",
    thing: "model",
    name: ["spec", "Model"],
    layerOf: (row) => row,
    most: 500,
    keep: isAsked,
    cell: auditCell,
    shorten: (row) => (narrow() ? shortName(row) : texts.spec[row]),
    widest: () => (["failed", "partial", "flagged"].includes(address.get("status")) ? "reason" : null),
  });
  address.listeners.push((changed) => changed.includes("status") && table.set({}));
  chosen.listeners.push((row, from) => {
    address.set({ model: row < 0 ? "" : data.ids[row] });
    if (from !== table) table.find(row);
  });
  new OneModel(document.getElementById("one"), ...section("one"));
  const hasNumbers = models.columns.some((column) => column.metric && column.values.some(isNumber));
  if (hasNumbers) new Scatter(...section("scatter"), table);
  if (Object.keys(data.histories).length && data.metrics.length) new History(...section("history"), table);
  cards();
  links();
  if (chosen.row >= 0) table.find(chosen.row);
  address.arrive();
}

address.read();
if (models.tree.count) {
  show();
  address.follow(show);
} else {
  section("models")[0].replaceChildren(nothing("The store has no rows yet."));
}
themes();
printing();
