// What is looked at, in the address: a link shows others the same section, rows, order, zoom and layer. A link is
// `#layers&q=conv&sort=-macs`: first the section, then what is not as it is at first.

const address = {
  state: {},
  at: "",
  /** Called with the names of what has changed. */
  listeners: [],
  read() {
    this.state = {};
    this.at = "";
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (!value && document.getElementById(name)?.matches("main section")) this.at = name;
      else this.state[name] = value;
    }
  },
  get(name, otherwise = "") {
    return Object.hasOwn(this.state, name) ? this.state[name] : otherwise;
  },
  /** One of several values, or the first where the address has none of them. */
  among(name, values, otherwise = values[0]) {
    const text = this.get(name, null);
    return values.find((value) => String(value) === text) ?? otherwise;
  },
  /** Change what is looked at; an empty value is as it is at first. */
  set(changes) {
    const text = (value) => (value === null || value === undefined ? "" : String(value));
    const changed = Object.keys(changes).filter((name) => this.get(name) !== text(changes[name]));
    for (const name of changed) {
      if (text(changes[name])) this.state[name] = text(changes[name]);
      else delete this.state[name];
    }
    if (!changed.length) return;
    this.write();
    for (const listener of this.listeners) listener(changed);
  },
  link() {
    return `#${[this.at, String(new URLSearchParams(this.state))].filter(Boolean).join("&")}`;
  },
  write() {
    try {
      history.replaceState(null, "", this.link());
    } catch {
      // A page inside another one, as in a notebook, has no address of its own.
    }
  },
  /** Show the section of the address, also where the browser remembers another place of an earlier visit. */
  arrive() {
    if (!this.at) return;
    try {
      history.scrollRestoration = "manual";
    } catch {
      // as above
    }
    document.getElementById(this.at).scrollIntoView({ behavior: "instant" });
  },
  /** Call `restart` where the address is changed by hand; a link to a section keeps what is looked at. */
  follow(restart) {
    addEventListener("hashchange", () => {
      const before = this.state;
      this.read();
      if (this.at && !Object.keys(this.state).length) {
        this.state = before;
        this.write();
      } else restart();
    });
  },
};
