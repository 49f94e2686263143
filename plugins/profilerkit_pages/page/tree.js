// Rows in a tree, by the place of each row's parent (-1 for none).

class Tree {
  constructor(parents) {
    this.parents = parents;
    this.count = parents.length;
    this.children = parents.map(() => []);
    this.roots = [];
    parents.forEach((parent, row) => (parent < 0 ? this.roots : this.children[parent]).push(row));
    this.depths = new Array(this.count).fill(0);
    this.order = [];
    this.walk((row) => {
      this.order.push(row);
      this.depths[row] = this.parents[row] < 0 ? 0 : this.depths[this.parents[row]] + 1;
      return true;
    });
    this.deepest = this.depths.reduce((most, depth) => Math.max(most, depth), 0);
  }

  /** Visit rows from the outside in; `visit` says whether to go on inside. No recursion: models nest without limit. */
  walk(visit, sorted = (rows) => rows) {
    const waiting = [...sorted(this.roots)].reverse();
    while (waiting.length) {
      const row = waiting.pop();
      if (!visit(row)) continue;
      const inside = sorted(this.children[row]);
      for (let place = inside.length - 1; place >= 0; place -= 1) waiting.push(inside[place]);
    }
  }

  /** A row and all that is inside it. */
  within(row) {
    const rows = [row];
    for (const one of rows) rows.push(...this.children[one]);
    return rows;
  }

  *around(row) {
    for (let at = this.parents[row]; at >= 0; at = this.parents[at]) yield at;
  }
}
