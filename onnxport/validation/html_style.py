"""The style of a report's page: light and dark, and on a narrow screen each row of a table as a card; and its one script."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b2430; --soft: #5a6675; --line: #d9dfe6; --panel: #f4f6f9;
  --good: #146c37; --good-back: #e2f4e8; --bad: #a8201a; --bad-back: #fdeaea; --open: #7a4d00; --open-back: #fdf1dc;
  --own: #1f5fbf; --whole: #8a4b00; --grid: #e6eaef;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161c; --ink: #dfe6ee; --soft: #98a5b4; --line: #2e3845; --panel: #1a2029;
    --good: #6fd694; --good-back: #14331f; --bad: #ff9a92; --bad-back: #401a1a; --open: #f2c373; --open-back: #3b2c10;
    --own: #7fb2ff; --whole: #e0a458; --grid: #232b36;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; } h3, h4 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
h2:has(.chip) { font-size: 1.25rem; margin-top: 3.5rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
:focus-visible { outline: 3px solid var(--own); outline-offset: 2px; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
code, pre { font: .875rem/1.5 ui-monospace, monospace; } code { overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.chip { display: inline-block; padding: .05rem .6rem; border-radius: 1rem; font-weight: 650; white-space: nowrap; }
.pass { color: var(--good); background: var(--good-back); }
.fail { color: var(--bad); background: var(--bad-back); }
.unproved { color: var(--open); background: var(--open-back); }
.why { border-left: 4px solid; border-radius: 4px; padding: .6rem .9rem; margin: .6rem 0; overflow-wrap: anywhere; }
.why h2 { margin: 0 0 .4rem; } .why dl, .why p, .why pre { color: var(--ink); }
pre { overflow-x: auto; background: var(--panel); padding: .6rem .8rem; border-radius: 6px; margin: .6rem 0; }
pre mark { background: none; color: var(--bad); font-weight: 650; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { text-align: left; padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; } .n { white-space: nowrap; }
td { overflow-wrap: anywhere; } a { color: inherit; }
.matrix th { white-space: normal; vertical-align: bottom; }
@media (min-width: 46.01rem) { .matrix td:first-child { min-width: 12rem; } }
.matrix :is(td, th):first-child { position: sticky; left: 0; background: var(--paper); }
.bar { display: inline-block; width: 6rem; max-width: 60%; height: .5rem; margin-right: .5rem; vertical-align: middle; }
.bar { background: var(--line); border-radius: .25rem; }
.bar i { display: block; height: 100%; border-radius: .25rem; background: var(--good); } .bar.over i { background: var(--bad); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: .4rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: .6rem 0 0; } figcaption { font-weight: 600; margin-bottom: .5rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 0 2.5rem; }
.axes { display: grid; grid-template-columns: 3.6rem minmax(0, 1fr); }
.axes .y { position: relative; } .axes .y span { position: absolute; right: .5rem; transform: translateY(-50%); }
.axes .x { grid-column: 2; position: relative; height: 1.6rem; }
.axes .x span { position: absolute; top: .2rem; transform: translateX(-50%); }
.axes span { white-space: nowrap; }
.axes .x .first { transform: none; } .axes .x .last { transform: translateX(-100%); }
.axes .x, .axes .y, .plot p, .keys { font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.axes svg { width: 100%; height: 13rem; overflow: visible; border: solid var(--line); border-width: 0 0 1px 1px; }
.plot p { margin: .1rem 0 0 3.6rem; }
.plot path { fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.plot .grid { stroke: var(--grid); stroke-width: 1; } .plot .allowed { stroke: var(--soft); stroke-dasharray: 5 4; }
.plot .whole { stroke: var(--whole); } .plot .dots { stroke-linecap: round; stroke-width: 5; stroke-dasharray: none; }
.plot .own { stroke: var(--own); } .plot .over { stroke: var(--bad); } .plot .dots.over { stroke-width: 11; }
.plot rect.own { fill: var(--own); stroke: none; } .plot rect.over { fill: var(--bad); stroke: none; }
.keys { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .3rem 0 0 3.6rem; padding: 0; }
.key { display: inline-block; width: 1.4rem; border-top: 2px solid; vertical-align: middle; margin-right: .4rem; }
.key.whole { color: var(--whole); } .key.allowed { border-top-style: dashed; }
.key:is(.own, .over) { width: .5rem; height: .5rem; border: 0; border-radius: 50%; background: var(--own); }
.key.over { width: .8rem; height: .8rem; background: var(--bad); }
.around { list-style: none; margin: .8rem 0 .2rem; padding: 0; color: var(--ink); }
.around > li + li::before { content: "\\2193"; display: block; color: var(--soft); padding: .1rem 0 .1rem 1rem; }
.around ul { list-style: none; display: flex; flex-wrap: wrap; gap: .5rem; margin: .1rem 0 0; padding: 0; }
.around ul li { border: 1px solid var(--line); border-radius: 6px; padding: .3rem .7rem; background: var(--paper); }
.around .itself ul li { border: 2px solid var(--bad); } .around code { display: block; color: var(--soft); }
.sortable th button { all: unset; cursor: pointer; font-weight: 600; }
.sortable th button::after { content: " \\2195"; opacity: .6; }
.sortable th button:focus-visible { outline: 3px solid var(--own); outline-offset: 2px; }
.sortable th[aria-sort] { color: var(--ink); }
.sortable [aria-sort="ascending"] button::after { content: " \\2191"; opacity: 1; }
.sortable [aria-sort="descending"] button::after { content: " \\2193"; opacity: 1; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
@media (max-width: 46rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  tr { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .7rem; margin: .6rem 0; }
  td { border: 0; padding: .15rem 0; display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: .6rem; }
  td::before { content: attr(data-label); color: var(--soft); }
  .sortable:has(button) thead { position: static; width: auto; height: auto; clip-path: none; display: block; }
  .sortable thead tr { display: flex; flex-wrap: wrap; gap: .1rem 1rem; } .sortable thead tr::before { content: "Sort by"; }
  .sortable th { border: 0; padding: .2rem 0; } .sortable caption { display: block; }
  td:empty { display: none; } dl { grid-template-columns: minmax(0, 1fr); } dd { margin-bottom: .4rem; }
}
"""

# The part in a notebook, whose own colours are not known: words in its ink, verdicts on a ground of their own.
NOTEBOOK_STYLE = """
.onnxport-report { overflow-x: auto; } .onnxport-report .n { white-space: nowrap; }
.onnxport-report .chip { color: #fff; padding: .1rem .5rem; border-radius: 1rem; font-weight: 650; }
.onnxport-report .chip.pass { background: #146c37; } .onnxport-report .chip.fail { background: #a8201a; }
.onnxport-report .chip.unproved { background: #7a4d00; }
.onnxport-report .why { border-left: 4px solid #a8201a; padding: .1rem .8rem; margin: .5rem 0; }
.onnxport-report .why.unproved { border-color: #b97a10; }
.onnxport-report dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: .4rem 0; }
.onnxport-report dd { margin: 0; } .onnxport-report th, .onnxport-report td { text-align: left; padding: .2rem .8rem .2rem 0; }
.onnxport-report :is(.around, .around ul) { list-style: none; margin: .2rem 0; padding: 0; }
.onnxport-report .around code { margin-left: .6rem; }
"""

# Headings of a sortable table become buttons, which a keyboard reaches; without scripts they stay words.
SORTING = """
for (const table of document.querySelectorAll("table.sortable:not([data-ready])")) {
  table.dataset.ready = "";
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const key = (row, i) => row.cells[i].dataset.value === undefined ? row.cells[i].textContent : +row.cells[i].dataset.value;
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numeric = body.rows[0] && body.rows[0].cells[i].dataset.value !== undefined;
      const now = head.getAttribute("aria-sort") || (numeric && i ? "ascending" : "descending"); // the greatest error first
      const up = now === "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (x, y) => typeof x === "string" ? x.localeCompare(y, undefined, {numeric: true}) : x < y ? -1 : +(x > y);
      body.append(...[...body.rows].sort((a, b) => {
        const [x, y] = [key(a, i), key(b, i)];
        return Number.isNaN(x) - Number.isNaN(y) || (up ? order(x, y) : order(y, x));
      }));
    });
  });
}
"""
