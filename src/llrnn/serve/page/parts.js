// From the API's explanation to the rows of a sum: log p = log b + Σ a·φ − log Z, each row with the running total.

const SHOWN = 8; // terms that stand alone; smaller ones are folded into one row

/** The rows that lead to log p of a word. */
export function partsOfWord(explanation, expanded) {
  const { word, log_p, log_b, log_z, log_inside, cell, terms, factors, forbidden_by } = explanation;
  const normaliser = { key: "log Z", kind: "normaliser", label: "− log Z", delta: -log_z };
  const rows = [
    ...background(log_b, factors, log_inside, cell, "log b"),
    ...folded(terms, expanded),
    { ...normaliser, hint: "what makes the probabilities sum to one" },
  ];
  return summed(rows, {
    what: "log p",
    title: `log p(${word})`,
    total: log_p,
    forbidden: log_b === null ? forbidden_by : null,
  });
}

/** The rows that lead to log p(word) − log p(rival); log Z cancels. */
export function partsOfComparison(comparison, word, rival, expanded) {
  const { log_ratio, log_b_difference, terms, factors } = comparison;
  const rows = [
    ...background(log_b_difference, factors, 0, null, "log b difference"),
    ...folded(terms, expanded),
  ];
  return summed(rows, {
    what: "log ratio",
    title: `log p(${word}) − log p(${rival})`,
    total: log_ratio,
    forbidden: log_ratio === null || log_b_difference === null ? [] : null,
  });
}

/** One row for the background, or one for each of its factors, and one for the place of a word within its cell. */
function background(log_b, factors, inside, cell, label) {
  const hint = "the background: how likely the word is before the network has its say";
  const row = (key, name, delta, said = hint) => ({ key, kind: "background", label: name, hint: said, delta });
  const several = factors.length > 1 && factors.every((factor) => factor.log_b !== null);
  const within = log_b === null ? null : log_b - inside;
  const rows = several
    ? factors.map((factor, i) => row(`b${i}`, `${label}: ${factor.name}`, factor.log_b, "a factor of the background"))
    : [row("b", cell === null ? label : `${label} of ${cell}`, within)];
  if (cell !== null) rows.push(row("inside", `log share of ${cell}`, inside, "the word among all words of its cell"));
  return rows;
}

function shownOf(terms, expanded) {
  return expanded || terms.length <= SHOWN + 1 ? terms.length : SHOWN;
}

function folded(terms, expanded) {
  const shown = shownOf(terms, expanded);
  const rows = terms.slice(0, shown).map(({ name, weight, value, share }) => ({
    key: `term:${name}`,
    kind: "term",
    label: name,
    feature: name,
    weight,
    value,
    delta: share,
  }));
  const rest = terms.slice(shown);
  if (rest.length) {
    const delta = rest.reduce((sum, term) => sum + term.share, 0);
    rows.push({ key: "fold", kind: "fold", label: `${rest.length} smaller ones`, delta });
  }
  return rows;
}

function summed(rows, about) {
  let running = 0;
  for (const row of rows) {
    row.before = running;
    running = row.delta === null || running === null ? null : running + row.delta;
    row.after = running;
  }
  return { ...about, rows, sum: running, finite: running !== null && about.total !== null };
}

/** Whether there is anything to fold. */
export const folds = (terms) => terms.length > SHOWN + 1;
