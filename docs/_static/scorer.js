/* How the search of the site ranks pages. Sphinx alone gives a page the score of its best word, so that of a question
   with two words all pages come out alike, in the order of the alphabet. */
"use strict";

/** Pages for those who work on the library, and the reference: an answer stands on a page for users, where there is one. */
const BEHIND = /^(api|architecture|maintaining|testing|genindex|py-modindex)/;

const query = () => new URLSearchParams(window.location.search).get("q") ?? "";

const wordsOfQuery = () => query().toLowerCase().split(/[^\p{L}\p{N}.&_-]+/u).filter((word) => word.length > 1);

/** Who types a name of Python's looks for the reference. */
const isName = () => /\w[._]\w|[a-z][A-Z]/.test(query());

/** What a page is about: its title, and the entries of the index that lead to it first. */
const subjectsOf = (docname) => {
  const { docnames, titles, indexentries } = Search._index;
  const number = docnames.indexOf(docname);
  const leading = Object.entries(indexentries).filter(([, places]) => places.some(([page, , isMain]) => page === number && isMain));
  return [titles[number] ?? "", ...leading.map(([entry]) => entry)].join(" ").toLowerCase();
};

var Scorer = {
  score: ([docname, , , , score]) => {
    const subjects = subjectsOf(docname);
    return score + 10 * wordsOfQuery().filter((word) => subjects.includes(word)).length - (BEHIND.test(docname) && !isName() ? 20 : 0);
  },
  // The rest is as Sphinx has it.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
