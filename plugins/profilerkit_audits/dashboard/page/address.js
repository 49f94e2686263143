// What is looked at, in the address: a link shows others the same rows in the same order with the same charts.

const address = {
  /** Names in the address, each with what it is where the address does not say. */
  defaults: { q: "", status: "", sort: "", x: "", y: "", better: "", log: "", metric: "", model: "" },
  state: {},
  listeners: [],
  read() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of Object.entries(this.defaults)) this.state[name] = parameters.get(name) ?? value;
  },
  /** Change what is looked at; the views that listen draw again. */
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    if (!changed.length) return;
    Object.assign(this.state, changes);
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.write(), 120);
    for (const listener of this.listeners) listener(changed);
  },
  link() {
    const entries = Object.entries(this.state).filter(([name, value]) => value !== this.defaults[name]);
    return entries.length ? `#${new URLSearchParams(entries)}` : "#";
  },
  write() {
    history.replaceState(null, "", this.link());
  },
};
address.read();
addEventListener("hashchange", () => {
  const before = { ...address.state };
  address.read();
  const changed = Object.keys(before).filter((name) => before[name] !== address.state[name]);
  if (changed.length) for (const listener of address.listeners) listener(changed);
});

/** The row that is chosen, or -1. */
const chosenRow = () => rows.index.get(address.state.model) ?? -1;
const choose = (row) => address.set({ model: row < 0 ? "" : data.ids[row] });

/** Links that leave the address alone, which has the state of the page. */
const sectionLinks = () =>
  links((event, node) => {
    event.preventDefault();
    node.scrollIntoView();
  });
