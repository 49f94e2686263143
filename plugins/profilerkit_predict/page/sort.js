// Tables are sorted by a click on a heading: numbers by their size, whatever the prefix of their unit, others by name.

const SIZES = { n: 1e-9, "\u00b5": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

/** The number that a cell begins with, in its base unit; NaN for a cell without one. */
function size(text) {
  const [, number, prefix] = /^([\d.,]+) ?([KMGTP]i|[n\u00b5mkMGTP])?(?:B|s| MACs|$)?/.exec(text) ?? [];
  return number ? Number(number.replaceAll(",", "")) * (SIZES[prefix] ?? 1) : NaN;
}

function compare(first, second) {
  const [one, other] = [size(first), size(second)];
  if (Number.isNaN(one) !== Number.isNaN(other)) return Number.isNaN(one) ? 1 : -1;
  return one - other || first.localeCompare(second);
}

for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const order = head.ariaSort === "ascending" ? "descending" : "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.ariaSort = order;
    const body = head.closest("table").tBodies[0];
    const text = (row) => row.children[head.cellIndex].textContent;
    const rows = [...body.rows].sort((first, second) => compare(text(first), text(second)));
    body.append(...(order === "ascending" ? rows : rows.reverse()));
  });
}
