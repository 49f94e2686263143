// What is around the contents of every page: its data, its sections with the links to them, and its colours.

const data = JSON.parse(document.getElementById("data").textContent);
const unpacked = (values) => (Array.isArray(values) ? values : values.at.map((place) => values.of[place]));

/** The body and the tools of a section, which is shown from now on. */
function section(key) {
  const node = document.getElementById(key);
  node.hidden = false;
  return [node.querySelector("[data-body]"), node.querySelector("[data-tools]")];
}

/** Links to the sections that are shown; `follow` is what a click does, if not what a link does anyway. */
function links(follow = () => {}) {
  const sections = [...document.querySelectorAll("main section[data-title]")].filter((node) => !node.hidden);
  document.querySelector(".sections").replaceChildren(...sections.map(
    (node) => el("a", { href: `#${node.id}`, onclick: (event) => follow(event, node) }, node.dataset.title),
  ));
}

/** Light or dark as the system has it, until the button says otherwise; the page stores nothing. */
function themes() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const change = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    change();
  });
  system.addEventListener("change", change);
  change();
}

addEventListener("scroll", () => tip.hide(), { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());

/** Paper is light, has the rows that would be scrolled to, and all that is behind something to press. */
function printing() {
  let [theme, closed] = ["", []];
  const turn = (isNear) => {
    paper.isNear = isNear;
    for (const table of Table.all) table.draw();
  };
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not(.menu):not([open])")];
    for (const details of closed) details.open = true;
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    turn(true);
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    turn(false);
  });
}
