"""The style of a report's page: light and dark, and on a narrow screen each row of a table as a card."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b2430; --soft: #5a6675; --line: #d9dfe6; --panel: #f4f6f9;
  --good: #146c37; --good-back: #e2f4e8; --bad: #a8201a; --bad-back: #fdeaea; --open: #7a4d00; --open-back: #fdf1dc;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161c; --ink: #dfe6ee; --soft: #98a5b4; --line: #2e3845; --panel: #1a2029;
    --good: #6fd694; --good-back: #14331f; --bad: #ff9a92; --bad-back: #401a1a; --open: #f2c373; --open-back: #3b2c10;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
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
th { font-weight: 600; color: var(--soft); white-space: nowrap; } td.n { white-space: nowrap; }
td { overflow-wrap: anywhere; } a { color: inherit; }
.matrix th { white-space: normal; vertical-align: bottom; }
.matrix :is(td, th):first-child { position: sticky; left: 0; background: var(--paper); }
.bar { display: inline-block; width: 6rem; max-width: 60%; height: .5rem; margin-right: .5rem; vertical-align: middle; }
.bar { background: var(--line); border-radius: .25rem; }
.bar i { display: block; height: 100%; border-radius: .25rem; background: var(--good); } .bar.over i { background: var(--bad); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: .4rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
@media (max-width: 46rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  tr { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .7rem; margin: .6rem 0; }
  td { border: 0; padding: .15rem 0; display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: .6rem; }
  td::before { content: attr(data-label); color: var(--soft); }
  td:empty { display: none; } dl { grid-template-columns: minmax(0, 1fr); } dd { margin-bottom: .4rem; }
}
"""
